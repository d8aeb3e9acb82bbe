"""The life of a replica: starting, ready, draining."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

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
