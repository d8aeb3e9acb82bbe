"""A look at the generator itself: whether what was measured is the server, or the one who measures."""

import asyncio
import time
from dataclasses import dataclass, field

from mcp_swarm.loadtest.latency import percentile

_PAUSE = 0.02
_BUSY = 0.9
"""Share of a core from which on the generator may be what limits a closed loop."""
_LAG_MS = 20.0


@dataclass(frozen=True)
class Generator:
    """What it took to generate the load."""

    processes: int
    cpu: float
    """Share of a core that the busiest process used, 0 to 1."""
    lag_p99_ms: float
    """How late the busiest process's event loop was when it had promised to look, 99th percentile."""
    late_p99_ms: float
    """How late requests of an open loop were sent by callers that were free."""

    @property
    def limit(self) -> str:
        """Why the figures may tell of the generator rather than of the server; empty if they don't."""
        if self.lag_p99_ms > _LAG_MS:
            return f"its event loop was {self.lag_p99_ms:.0f} ms late (p99), which the latencies contain"
        if self.cpu > _BUSY:
            return f"it used {self.cpu:.0%} of a core, so the server may be able to do more"
        return ""


@dataclass
class Watch:
    """Watches the process that it runs in."""

    lags: list[float] = field(default_factory=list)
    cpu: float = 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
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
    """What several processes' watches saw.

    Args:
        late: seconds by which free callers sent late.
    """
    return Generator(
        processes=len(watches),
        cpu=round(max(watch.cpu for watch in watches), 3),
        lag_p99_ms=round(max(_p99_ms(watch.lags) for watch in watches), 3),
        late_p99_ms=round(_p99_ms(late), 3),
    )


def _p99_ms(seconds: list[float]) -> float:
    return percentile(sorted(seconds), 99) * 1000 if seconds else 0.0
