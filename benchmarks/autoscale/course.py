"""The simulation: it follows the load and the replicas, second by second."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

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
    """

    hours: float
    overloaded: float
    changes: int


def simulate(loads: Sequence[float], choice: Choice) -> Outcome:
    """Run a choice over a course of loads."""
    replicas = ready = choice.begin(loads)
    starting: deque[tuple[int, int]] = deque()
    used = overloaded = changes = 0
    for second, load in enumerate(loads):
        while starting and starting[0][0] <= second:
            ready = min(replicas, ready + starting.popleft()[1])
        overloaded += load > ready
        used += replicas
        if second % choice.seconds:
            continue
        wanted = choice.decide(second, replicas, ready, min(load / ready, _MOST_LOAD))
        changes += wanted != replicas
        if wanted > replicas:
            starting.append((second + START_SECONDS, wanted - replicas))
        replicas, ready = wanted, min(ready, wanted)
    return Outcome(used / 3600, overloaded / len(loads), changes)
