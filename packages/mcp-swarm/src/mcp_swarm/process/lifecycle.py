"""Where a replica is in its life: starting, ready, draining."""

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
    """The state that `/readyz` tells, turned to draining by SIGTERM or Ctrl-C.

    uvicorn closes its listener as soon as its own signal handler runs. A balancer needs time to notice, so that
    handler is held back: the first signal starts the drain, and the handler runs after it. The same signal once more
    ends the process at once, whatever is in flight (`cut`). The other one ends the drain only: Ctrl-C reaches local
    replicas twice, from the terminal and as their supervisor's SIGTERM.
    """

    def __init__(self, drain_seconds: float, cut: Callable[[], None] = lambda: None) -> None:
        self.cut = cut
        self.state = "starting"
        self._drain_seconds = drain_seconds
        self._received: set[signal.Signals] = set()
        self.at_drain: list[Callable[[], None]] = []
        """Called when the drain begins, on the event loop."""
        self.at_stop: list[Callable[[], None]] = []
        """Called after the drain, on the event loop: end here what a client would wait for without end."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ready inside of the block; signals start the drain. Enter it from the running event loop."""
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
        """End the process behind the block if a signal has asked for it, although a tool's thread or task runs on."""
        try:
            yield
        finally:
            if self._received:
                self.cut()

    def _hold_back(self, number: signal.Signals) -> "signal._HANDLER":
        held = signal.getsignal(number)
        stop_server: _Handler = held if callable(held) else lambda *_: None
        loop = asyncio.get_running_loop()

        def on_signal(*_: object) -> None:
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
        for begin in self.at_drain:
            begin()
        if self._drain_seconds:
            logger.info("%s: draining for %g s, then stopping", number.name, self._drain_seconds)
        asyncio.get_running_loop().call_later(self._drain_seconds, self._stop, number, stop_server)

    def _stop(self, number: signal.Signals, stop_server: _Handler) -> None:
        for end in self.at_stop:
            end()
        stop_server(number, None)

    def _stop_at_once(self, number: signal.Signals, stop_server: _Handler) -> None:
        logger.info("%s again: stopping at once", number.name)
        self._stop(number, stop_server)
        stop_server(signal.SIGINT, None)  # a second Ctrl-C: it waits no longer for calls in flight
        self.cut()
