"""Latencies: exact percentiles and a histogram."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
"""Those that reports show."""

_STEPS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
"""Bounds of a histogram's buckets within a decade: Renard's series R10 (ISO 3), each a quarter above the last."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest of the ordered values that at least `percent` % of them do not exceed (nearest rank, exact).

    Raises:
        ValueError: there are no values.
    """
    if not ordered:
        raise ValueError("no values")
    # Rounded first, or 99.9 % of 1,000 would be the 1,000th for the sake of 1e-13.
    rank = math.ceil(round(percent / 100 * len(ordered), 6))
    return ordered[max(0, rank - 1)]


@dataclass(frozen=True)
class Latency:
    """Latencies in milliseconds; all None when there were none."""

    count: int
    mean: float | None
    p50: float | None
    p75: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p99_9: float | None
    max: float | None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency":
        """The latency figures of calls that took so many seconds each."""
        ordered = sorted(seconds)
        if not ordered:
            return cls(0, *[None] * 8)
        exact = [percentile(ordered, percent) for percent in (*PERCENTILES, 100)]
        return cls(len(ordered), *(round(value * 1000, 3) for value in (math.fsum(ordered) / len(ordered), *exact)))


@dataclass(frozen=True)
class Bucket:
    """A bar of a histogram."""

    up_to_ms: float
    """Its upper bound, which belongs to it."""
    count: int


def histogram(seconds: Sequence[float]) -> list[Bucket]:
    """How many took how long, in buckets whose bounds grow by a quarter from one to the next.

    Buckets of equal width would put all into the first as soon as there is one outlier.
    """
    last = len(_BOUNDS) - 1
    counts = Counter(min(last, bisect_left(_BOUNDS, value * 1000)) for value in seconds)
    if not counts:
        return []
    return [Bucket(_BOUNDS[step], counts[step]) for step in range(min(counts), max(counts) + 1)]


_BOUNDS = [float(f"{step}e{decade}") for decade in range(-3, 8) for step in _STEPS]
"""Milliseconds, from a microsecond to a day; what is beyond counts there."""
