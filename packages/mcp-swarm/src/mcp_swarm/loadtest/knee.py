"""How much a deployment can take: the rate is raised until something breaks, and the knee is looked for in between."""

from collections.abc import Callable
from dataclasses import dataclass

from mcp_swarm.loadtest.summary import Summary
from mcp_swarm.loadtest.thresholds import Threshold

_FACTOR = 2.0
_CLOSE = 1.1
"""Where the best and the worst rate are so near to each other, the knee is found."""

_ACHIEVED = 0.95
"""Share of the offered rate that must be begun and succeed; below, requests pile up."""


@dataclass(frozen=True)
class Stage:
    """One rate that was tried."""

    rate: float
    """Offered, per second."""
    summary: Summary
    broken: list[str]
    """What didn't hold; empty if all did."""


@dataclass(frozen=True)
class Knee:
    """What was found."""

    stages: list[Stage]
    """In the order in which they were tried."""

    @property
    def best(self) -> Stage | None:
        """The highest rate at which everything held."""
        return max((stage for stage in self.stages if not stage.broken), key=lambda stage: stage.rate, default=None)

    @property
    def worst(self) -> Stage | None:
        """The lowest rate at which something broke."""
        return min((stage for stage in self.stages if stage.broken), key=lambda stage: stage.rate, default=None)

    @property
    def limited_by_generator(self) -> bool:
        """Whether the generator, rather than the server, may be what broke."""
        return self.worst is not None and bool(self.worst.summary.generator.limit)


def find(
    first: float,
    thresholds: tuple[Threshold, ...],
    attempt: Callable[[float], Summary],
    tried: Callable[[Stage], None] = lambda _: None,
) -> Knee:
    """Look for the knee.

    Args:
        first: the rate to begin with, per second; doubled until something breaks, then halved in between.
        attempt: loads at a rate; gives what came of it. An interruption ends the search with what has been found.
        tried: called after each.
    """
    knee = Knee([])
    rate = first
    while True:
        try:
            summary = attempt(rate)
        except KeyboardInterrupt:
            return knee
        knee.stages.append(Stage(rate, summary, _broken(rate, thresholds, summary)))
        tried(knee.stages[-1])
        best, worst = knee.best, knee.worst
        if worst is None:
            rate *= _FACTOR
        elif best is None:
            if rate < 1:
                return knee
            rate /= _FACTOR
        elif worst.rate <= best.rate * _CLOSE:
            return knee
        else:
            rate = (best.rate + worst.rate) / 2


def _broken(rate: float, thresholds: tuple[Threshold, ...], summary: Summary) -> list[str]:
    found = [said for threshold in thresholds if (said := threshold.broken(summary))]
    if summary.begun < _ACHIEVED * rate:
        found.append(f"only {summary.begun:,.0f}/s of {rate:,.0f}/s could be begun")
    return found
