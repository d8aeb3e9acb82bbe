"""The result of one measurement."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from anyreplica.load.latency import percentile


@dataclass(frozen=True)
class Sample:
    """The figures of one load."""

    requests: int
    """Number of replies, including wrong ones."""
    errors: int
    """Number of replies with a wrong status or a wrong body."""
    first_error: str
    seconds: float
    cpu_seconds: float
    """User and system time of the server, of all threads."""
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

    @classmethod
    def of(
        cls, nanoseconds: Collection[int], *, errors: int, first_error: str, seconds: float, cpu_seconds: float
    ) -> Self:
        """Return the sample of at least one reply, from the nanoseconds that each reply took."""
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
