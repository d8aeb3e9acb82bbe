"""What one measurement gives."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from mcp_swarm.loadtest.latency import percentile


@dataclass(frozen=True)
class Sample:
    """What was measured under one load for some time."""

    requests: int
    """Replies that came, wrong ones too."""
    errors: int
    """Replies with another status than 200, or with another body than is right."""
    first_error: str
    seconds: float
    cpu_seconds: float
    """User and system time of the server's process, all threads."""
    p50_ms: float
    p99_ms: float

    @property
    def cpu_us(self) -> float:
        """CPU time per request in µs."""
        return self.cpu_seconds / self.requests * 1e6

    @property
    def per_second(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    @property
    def busy(self) -> float:
        """CPU time of the server per time, 0 to 1: below 1 it waited for the load."""
        return self.cpu_seconds / self.seconds

    @classmethod
    def of(
        cls, nanoseconds: Collection[int], *, errors: int, first_error: str, seconds: float, cpu_seconds: float
    ) -> Self:
        """The sample of replies that took so long each; there is at least one."""
        ordered = sorted(nanoseconds)
        return cls(
            requests=len(ordered),
            errors=errors,
            first_error=first_error,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            p50_ms=percentile(ordered, 50) / 1e6,
            p99_ms=percentile(ordered, 99) / 1e6,
        )
