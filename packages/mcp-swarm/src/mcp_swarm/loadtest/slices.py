"""What happened when: a run cut into slices of equal length."""

from collections import Counter
from dataclasses import dataclass

from mcp_swarm.loadtest.latency import percentile
from mcp_swarm.loadtest.samples import Samples

SLICES = 60
"""How many a run is cut into, at most."""

_SHORTEST = 0.1


@dataclass(frozen=True)
class Slice:
    """What ended within a slice."""

    at: float
    """Seconds from the run's start to the slice's."""
    seconds: float
    requests: int
    failed: int
    p50: float | None
    """Milliseconds of the successful; None if there were none."""
    p99: float | None
    replicas: dict[str, int]
    """Requests that each replica answered."""


def slices(samples: Samples, elapsed: float) -> list[Slice]:
    """Cut a run that took so many seconds."""
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
