"""The event loop lag: the delay with which the event loop runs a timer. Every request waits for this time, too."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from anyreplica.http.durations import Durations

_APART = 0.25
"""Time between two measurements, in seconds."""
_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class LoopLag(Collector):
    """The histogram of the event loop lag. A timer runs again and again, and this class records its delay."""

    def __init__(self) -> None:
        self._late = Durations(_BOUNDS)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Measure the lag while the context is open."""
        self._wait(asyncio.get_running_loop())
        try:
            yield
        finally:
            self._timer.cancel()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _APART
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._late.observe(max(0.0, loop.time() - due))
        self._wait(loop)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Return the histogram of all measurements."""
        text = "Delay with which the event loop runs a timer, in seconds."
        family = HistogramMetricFamily("mcp_event_loop_lag_seconds", text)
        self._late.add_to(family)
        yield family
