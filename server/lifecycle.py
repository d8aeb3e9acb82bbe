"""Where a replica is in its life: starting, ready, draining."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

logger = logging.getLogger(__name__)


class Lifecycle:
    """The state that `/readyz` tells, turned to draining by SIGTERM or Ctrl-C.

    The server (uvicorn) closes its listener as soon as its own signal handler runs. A balancer needs time to
    notice, so that handler is held back: the first signal starts the drain, and the handler runs after it. A second
    signal ends the process at once, whatever is in flight.

    Args:
        drain_seconds: time of the drain.
        cut: ends the process regardless, within a moment.
    """

    def __init__(self, drain_seconds: float, cut: Callable[[], None] = lambda: None) -> None:
        self.cut = cut
        self.state = "starting"
        self._drain_seconds = drain_seconds
        self.at_stop: list[Callable[[], None]] = []
        """Called after the drain, on the event loop: end here what a client would wait for without end."""
        self.at_drain: list[Callable[[], None]] = []
        """Called when the drain begins, on the event loop."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ready inside of the block; signals start the drain. Enter it from the running event loop."""
        handlers = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                handlers[number] = self._hold_back(number)
        self.state = "ready"
        logger.info("Ready")
        try:
            yield
        finally:
            self.state = "draining"
            logger.info("Stopped")
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _hold_back(self, number: signal.Signals) -> "signal._HANDLER":
        server_handler = signal.getsignal(number)
        loop = asyncio.get_running_loop()

        def stop(signum: int, frame: FrameType | None) -> None:
            for end in self.at_stop:
                end()
            if callable(server_handler):
                server_handler(signum, frame)

        def begin_drain(signum: int, frame: FrameType | None) -> None:
            for begin in self.at_drain:
                begin()
            if self._drain_seconds:
                logger.info("%s: draining for %g s, then stopping", number.name, self._drain_seconds)
            loop.call_later(self._drain_seconds, stop, signum, frame)

        def stop_at_once(signum: int, frame: FrameType | None) -> None:
            logger.info("%s again: stopping at once", number.name)
            stop(signum, frame)
            if callable(server_handler):  # which waits no longer for calls in flight after a second Ctrl-C
                server_handler(signal.SIGINT, frame)
            self.cut()

        def on_signal(signum: int, frame: FrameType | None) -> None:
            again = self.state == "draining"
            self.state = "draining"
            loop.call_soon_threadsafe(stop_at_once if again else begin_drain, signum, frame)

        signal.signal(number, on_signal)
        return server_handler
