"""The life of a replica: starting, ready, draining, and an end that waits for no thread, task or start.

An app that another app mounts gets its lifespan from here, as a context manager: an ASGI server sends the lifespan
messages only to the outermost app (ASGI specification, lifespan protocol).
"""

import _thread
import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType

from starlette.types import ASGIApp, Message

_Handler = Callable[[int, FrameType | None], object]

logger = logging.getLogger(__name__)


class Lifecycle:
    """The state of a replica, which `/readyz` returns. SIGTERM or Ctrl-C starts the drain.

    uvicorn closes its listener as soon as its signal handler runs. A load balancer needs time to notice this. So the
    first signal starts the drain, and uvicorn's handler runs only after the drain. If the same signal arrives again,
    the process ends within a second, even if requests are in flight (`terminate`). If the other signal arrives, it ends
    only the drain. This matters for local replicas: a Ctrl-C reaches them from the terminal, and then their supervisor
    sends SIGTERM.

    Before `has_started`, there is nothing to drain: a signal goes to the server's handler at once.
    """

    def __init__(self, drain_seconds: float, terminate: Callable[[], None] = lambda: None) -> None:
        self.terminate = terminate
        self.state = "starting"
        self.has_started = False
        """Whether the start is over. The lifespan of the app sets it."""
        self._drain_seconds = drain_seconds
        self._received: set[signal.Signals] = set()
        self.on_drain: list[Callable[[], None]] = []
        """Functions to call on the event loop when the drain begins."""
        self.on_stop: list[Callable[[], None]] = []
        """Functions to call on the event loop after the drain. They must end streams that would never end otherwise."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be ready inside the block. A signal starts the drain. The caller must be on the running event loop."""
        on_main_thread = threading.current_thread() is threading.main_thread()
        stopping = (signal.SIGTERM, signal.SIGINT) if on_main_thread else ()
        handlers = {number: self._hold_back(number) for number in stopping}
        self.state = "ready"
        logger.info("Ready")
        try:
            yield
        finally:
            self.state = "draining"
            logger.info("Stopped")
            for number, handler in handlers.items():
                signal.signal(number, handler)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """End the process after the block if a signal has arrived, even if a thread or task of a tool still runs."""
        try:
            yield
        finally:
            if self._received:
                self.terminate()

    def _hold_back(self, number: signal.Signals) -> "signal._HANDLER":
        held = signal.getsignal(number)
        stop_server: _Handler = held if callable(held) else lambda *_: None
        loop = asyncio.get_running_loop()

        def on_signal(*_: object) -> None:
            if not self.has_started:
                self.state = "draining"
                self._received.add(number)
                stop_server(number, None)
                return
            if self.state != "draining":
                self.state = "draining"
                answer = self._begin_drain
            elif number in self._received:
                answer = self._stop_at_once
            else:
                answer = self._stop
            self._received.add(number)
            loop.call_soon_threadsafe(answer, number, stop_server)

        signal.signal(number, on_signal)
        return held

    def _begin_drain(self, number: signal.Signals, stop_server: _Handler) -> None:
        for begin in self.on_drain:
            begin()
        if self._drain_seconds:
            logger.info("%s received: draining for %g s, then stopping", number.name, self._drain_seconds)
        asyncio.get_running_loop().call_later(self._drain_seconds, self._stop, number, stop_server)

    def _stop(self, number: signal.Signals, stop_server: _Handler) -> None:
        for end in self.on_stop:
            end()
        stop_server(number, None)

    def _stop_at_once(self, number: signal.Signals, stop_server: _Handler) -> None:
        logger.info("%s received again: stopping at once", number.name)
        self._stop(number, stop_server)
        stop_server(signal.SIGINT, None)  # like a second Ctrl-C: uvicorn then does not wait for calls in flight
        self.terminate()


class NotStartedError(RuntimeError):
    """A request needs an app whose lifespan nobody has run."""

    def __init__(self) -> None:
        super().__init__(
            "anyreplica: this app has not started. An app that mounts it must run its lifespan, for example "
            'Starlette(routes=[Mount("/api", app)], lifespan=app.lifespan).'
        )


@asynccontextmanager
async def run_lifespan(app: ASGIApp) -> AsyncIterator[None]:
    """Start an app with the messages of the lifespan protocol, and stop it at the end.

    Raises:
        RuntimeError: the app has not started. It has printed the reason.
    """
    received = asyncio.Queue[Message]()
    sent = asyncio.Queue[Message]()
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
    # The app runs in one task from start to stop, because it may enter cancel scopes.
    task: asyncio.Task[None] = asyncio.ensure_future(app(scope, received.get, sent.put))
    task.add_done_callback(lambda _: sent.put_nowait({"type": "lifespan.ended"}))
    await received.put({"type": "lifespan.startup"})
    if (await sent.get())["type"] != "lifespan.startup.complete":
        await task
        raise RuntimeError("anyreplica: the replica has not started; the line before says why")
    try:
        yield
    finally:
        await received.put({"type": "lifespan.shutdown"})
        await task


_LAST_SECONDS = 1.0


class Terminated(KeyboardInterrupt):
    """SIGTERM has arrived before a server runs."""


def end_regardless() -> None:
    """End the process after 1 s, even if a thread or task of a tool still runs. Python would wait for them.

    A signal handler may call this. `threading.Timer` could then wait for ever for a lock of the interrupted code.
    """
    _thread.start_new_thread(_end_soon, ())


def end_now(code: int) -> None:
    """Write the waiting log lines and end the process at once, together with the processes of `multiprocessing`.

    Python would wait for these processes. Without this process, they would wait for work for ever.
    """
    flush_logs()
    for child in multiprocessing.active_children():
        child.kill()  # a forked process has our handler of SIGTERM, which does not end it
    os._exit(code)


def flush_logs() -> None:
    """Write the waiting log lines."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def end_at_sigterm() -> None:
    """From now on, SIGTERM ends the process. Call this before the server is loaded, which may take long.

    The kernel ignores SIGTERM for the first process of a container, unless the process has a handler.
    """
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    end_regardless()  # the interrupted code may catch the exception
    raise Terminated


def _end_soon() -> None:
    time.sleep(_LAST_SECONDS)
    end_now(0)
