"""Latency figures: exact percentiles and a histogram."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
"""The percentiles in the reports."""

_STEPS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
"""Bounds of the histogram's buckets within a decade: Renard's series R10 (ISO 3), each about 25 % above the last."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` % of the values do not exceed (nearest rank, exact).

    Args:
        ordered: The values in ascending order.
        percent: The percentile, from 0 to 100.

    Raises:
        ValueError: There are no values.
    """
    if not ordered:
        raise ValueError("no values")
    # Round first: without it, a rounding error of 1e-13 would make 99.9 % of 1,000 values the 1,000th value.
    rank = math.ceil(round(percent / 100 * len(ordered), 6))
    return ordered[max(0, rank - 1)]


@dataclass(frozen=True)
class Latency:
    """Latency figures in milliseconds; all are None if there are no values."""

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
        """Return the latency figures of a list of durations in seconds."""
        ordered = sorted(seconds)
        if not ordered:
            return cls(0, *[None] * 8)
        exact = [percentile(ordered, percent) for percent in (*PERCENTILES, 100)]
        return cls(len(ordered), *(round(value * 1000, 3) for value in (math.fsum(ordered) / len(ordered), *exact)))


@dataclass(frozen=True)
class Bucket:
    """One bar of a histogram."""

    up_to_ms: float
    """The upper bound in milliseconds; the bucket includes the bound."""
    count: int


def histogram(seconds: Sequence[float]) -> list[Bucket]:
    """Count durations in buckets; each bound is about 25 % above the one before.

    With buckets of equal width, one outlier would put all other values into the first bucket.

    Args:
        seconds: The durations in seconds.
    """
    last = len(_BOUNDS) - 1
    counts = Counter(min(last, bisect_left(_BOUNDS, value * 1000)) for value in seconds)
    if not counts:
        return []
    return [Bucket(_BOUNDS[step], counts[step]) for step in range(min(counts), max(counts) + 1)]


_BOUNDS = [float(f"{step}e{decade}") for decade in range(-3, 8) for step in _STEPS]
"""Bounds in milliseconds, from 1 microsecond to 22 hours; longer durations count in the last bucket."""
