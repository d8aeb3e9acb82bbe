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
    notice, so that handler is held back: the first signal starts the drain, and the handler runs after it.
    """

    def __init__(self, drain_seconds: float) -> None:
        self.state = "starting"
        self._drain_seconds = drain_seconds
        self.at_stop: list[Callable[[], None]] = []
        """Called after the drain, on the event loop: end here what a client would wait for without end."""

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

        def drain(signum: int, frame: FrameType | None) -> None:
            again = self.state == "draining"
            self.state = "draining"
            if again or not self._drain_seconds:
                loop.call_soon_threadsafe(stop, signum, frame)
            else:
                message = "%s: draining for %g s, then stopping"
                loop.call_soon_threadsafe(logger.info, message, number.name, self._drain_seconds)
                loop.call_soon_threadsafe(loop.call_later, self._drain_seconds, stop, signum, frame)

        signal.signal(number, drain)
        return server_handler
