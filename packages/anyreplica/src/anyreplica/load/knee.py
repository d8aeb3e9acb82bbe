"""A search for the highest rate that a deployment sustains (the knee).

The search doubles the rate until a threshold breaks. If the first rate breaks one, the search halves the rate until no
threshold breaks. Then it narrows the interval between the highest good rate and the lowest bad rate. It ends after
`MOST_STAGES` rates in any case.
"""

from collections.abc import Callable
from dataclasses import dataclass

from anyreplica.load.summary import Summary
from anyreplica.load.thresholds import Threshold

_FACTOR = 2.0
_CLOSE = 1.1
"""The search ends when the lowest bad rate is at most this many times the highest good rate."""

MOST_STAGES = 50
"""Maximum number of rates that the search tries."""

_ACHIEVED = 0.95
"""Share of the offered rate at which the clients must begin requests; below this share, requests pile up."""


@dataclass(frozen=True)
class Stage:
    """One rate that the search tried."""

    rate: float
    """Offered requests per second."""
    summary: Summary
    broken: list[str]
    """The broken thresholds, in words; empty if the rate is good."""


@dataclass(frozen=True)
class Knee:
    """The result of the search."""

    stages: list[Stage]
    """The stages in the order in which the search tried them."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search."""

    @property
    def best(self) -> Stage | None:
        """The highest rate without a broken threshold."""
        return max((stage for stage in self.stages if not stage.broken), key=lambda stage: stage.rate, default=None)

    @property
    def worst(self) -> Stage | None:
        """The lowest rate with a broken threshold."""
        return min((stage for stage in self.stages if stage.broken), key=lambda stage: stage.rate, default=None)

    @property
    def limited_by_generator(self) -> bool:
        """Whether the load generator, and not the server, may be the reason for the broken threshold."""
        return self.worst is not None and bool(self.worst.summary.generator.limit)


def find(
    first: float,
    thresholds: tuple[Threshold, ...],
    attempt: Callable[[float], Summary],
    tried: Callable[[Stage], None] = lambda _: None,
) -> Knee:
    """Search for the knee.

    Args:
        first: The first rate, in requests per second.
        thresholds: The conditions that a good rate meets.
        attempt: Generates load at a rate and returns the summary. If it raises KeyboardInterrupt, the search
            ends, and the result has the stages that are complete.
        tried: Called after each stage.
    """
    knee = Knee([])
    rate = first
    while len(knee.stages) < MOST_STAGES:
        try:
            summary = attempt(rate)
        except KeyboardInterrupt:
            return Knee(knee.stages, interrupted=True)
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
    return knee


def _broken(rate: float, thresholds: tuple[Threshold, ...], summary: Summary) -> list[str]:
    found = [broken_limit for threshold in thresholds if (broken_limit := threshold.broken(summary))]
    if summary.begun < _ACHIEVED * rate:
        found.append(f"the clients began only {summary.begun:,.0f} of {rate:,.0f} requests per second")
    return found
