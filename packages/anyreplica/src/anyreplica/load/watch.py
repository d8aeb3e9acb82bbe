"""A monitor of the load generator: it shows whether the generator, and not the server, limits the result."""

import asyncio
import time
from dataclasses import dataclass, field

from anyreplica.load.latency import percentile

_PAUSE = 0.02
"""Seconds between two measurements of the event loop's delay."""
_BUSY = 0.9
"""CPU use, as a share of a core, above which the generator may limit the throughput."""
_LAG_MS = 20.0
"""Delay of the event loop, in milliseconds, above which the measured latencies are not reliable."""


@dataclass(frozen=True)
class Generator:
    """Figures about the load generator."""

    processes: int
    cpu: float
    """CPU use of the busiest process, as a share of a core from 0 to 1."""
    lag_p99_ms: float
    """99th percentile of the event loop's delay, in milliseconds; the highest value of all processes."""
    late_p99_ms: float
    """99th percentile of the delays with which free clients (without a request in flight) sent requests, in ms."""

    @property
    def limit(self) -> str:
        """The reason why the generator may have limited the result; empty if it did not."""
        if self.lag_p99_ms > _LAG_MS:
            return f"its event loop was {self.lag_p99_ms:.0f} ms late (p99); the latencies include this delay"
        if self.cpu > _BUSY:
            return f"it used {self.cpu:.0%} of a core; the server may reach a higher throughput"
        return ""


@dataclass
class Watch:
    """A monitor of the process that it runs in."""

    lags: list[float] = field(default_factory=list)
    cpu: float = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        cpu, began = time.process_time(), time.perf_counter()
        try:
            while True:
                promised = loop.time() + _PAUSE
                await asyncio.sleep(_PAUSE)
                self.lags.append(max(0.0, loop.time() - promised))
        finally:
            self.cpu = (time.process_time() - cpu) / max(1e-9, time.perf_counter() - began)


def generator(watches: list[Watch], late: list[float]) -> Generator:
    """Combine the measurements of several processes.

    Args:
        watches: One monitor per process.
        late: How late free clients (without a request in flight) sent requests, in seconds.
    """
    return Generator(
        processes=len(watches),
        cpu=round(max(watch.cpu for watch in watches), 3),
        lag_p99_ms=round(max(_p99_ms(watch.lags) for watch in watches), 3),
        late_p99_ms=round(_p99_ms(late), 3),
    )


def _p99_ms(seconds: list[float]) -> float:
    return percentile(sorted(seconds), 99) * 1000 if seconds else 0.0
