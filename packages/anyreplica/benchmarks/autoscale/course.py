"""The simulation: it follows the load and the replicas, second by second."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.autoscale.scalers import Choice

START_SECONDS = 15
"""Time from the decision to a replica that serves."""

_MOST_LOAD = 1.5
"""The highest load that a replica shows, because it refuses calls beyond its limit."""


@dataclass(frozen=True)
class Outcome:
    """The figures of one simulation.

    Attributes:
        hours: replica hours, including replicas that start.
        overloaded: share of the seconds in which the ready replicas had more load than they serve well.
        changes: number of changes of the number of replicas.
        replicas: number of replicas in each second, including replicas that start.
        ready: number of replicas that serve in each second.
    """

    hours: float
    overloaded: float
    changes: int
    replicas: list[int] = field(repr=False)
    ready: list[int] = field(repr=False)


def simulate(loads: Sequence[float], choice: Choice) -> Outcome:
    """Run a choice over a course of loads."""
    replicas = ready = choice.begin(loads)
    starting: deque[tuple[int, int]] = deque()
    changes = 0
    all_replicas: list[int] = []
    all_ready: list[int] = []
    for second, load in enumerate(loads):
        while starting and starting[0][0] <= second:
            ready = min(replicas, ready + starting.popleft()[1])
        all_replicas.append(replicas)
        all_ready.append(ready)
        if second % choice.seconds:
            continue
        wanted = choice.decide(second, replicas, ready, min(load / ready, _MOST_LOAD))
        changes += wanted != replicas
        if wanted > replicas:
            starting.append((second + START_SECONDS, wanted - replicas))
        replicas, ready = wanted, min(ready, wanted)
    overloaded = sum(load > ready for load, ready in zip(loads, all_ready, strict=True))
    return Outcome(sum(all_replicas) / 3600, overloaded / len(loads), changes, all_replicas, all_ready)
