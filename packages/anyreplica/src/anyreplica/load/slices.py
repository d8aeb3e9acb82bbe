"""Slices: a run divided into parts of equal length, for charts and comparisons."""

from collections import Counter
from dataclasses import dataclass

from anyreplica.load.latency import percentile
from anyreplica.load.samples import Samples

SLICES = 60
"""Maximum number of slices of a run."""

_SHORTEST = 0.1
"""Minimum length of a slice, in seconds."""


@dataclass(frozen=True)
class Slice:
    """Figures of the requests that ended within one slice."""

    at: float
    """Start of the slice, in seconds since the start of the run."""
    seconds: float
    """Length of the slice, in seconds."""
    requests: int
    """Number of requests that ended in the slice."""
    failed: int
    """Number of failed requests."""
    p50: float | None
    """Latency of the successful requests, in milliseconds; None if there are none."""
    p99: float | None
    """Latency of the successful requests, in milliseconds; None if there are none."""
    replicas: dict[str, int]
    """Number of requests that each replica answered."""


def slices(samples: Samples, elapsed: float) -> list[Slice]:
    """Divide a run of `elapsed` seconds into slices."""
    count = max(1, min(SLICES, int(elapsed / _SHORTEST)))
    width = elapsed / count
    good: list[list[float]] = [[] for _ in range(count)]
    failed = [0] * count
    replicas: list[Counter[str]] = [Counter() for _ in range(count)]
    for each in samples:
        number = min(count - 1, int(each.ended / width)) if width else 0
        if each.kind:
            failed[number] += 1
        else:
            good[number].append(each.seconds)
        if each.replica:
            replicas[number][each.replica] += 1
    return [
        Slice(
            at=round(number * width, 3),
            seconds=round(width, 6),
            requests=len(good[number]) + failed[number],
            failed=failed[number],
            p50=_ms(good[number], 50),
            p99=_ms(good[number], 99),
            replicas=dict(sorted(replicas[number].items())),
        )
        for number in range(count)
    ]


def _ms(seconds: list[float], percent: float) -> float | None:
    return round(percentile(sorted(seconds), percent) * 1000, 3) if seconds else None
