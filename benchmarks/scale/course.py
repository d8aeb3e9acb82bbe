"""One case through all rounds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from statistics import median

from benchmarks.scale.fleet import Measured
from benchmarks.scenarios import Scenario
from benchmarks.study.study import Column, Row, row_of

SCALING = [
    Column("rate", "calls", "/s", drawn=True),
    Column("efficiency", "efficiency", "%", "more", drawn=True),
    Column("cpu", "CPU per call", "µs", "less", drawn=True),
    Column("p50", "p50", "ms", "less"),
    Column("p99", "p99", "ms", "less"),
    Column("memory", "memory", "MB", "less"),
    Column("cost", "a million calls", "¢", "less"),
]
"""What replicas are compared by."""

ALONE = [
    Column("rate", "calls", "/s", "more"),
    Column("cpu", "CPU per call", "µs", "less"),
    Column("time", "calls by CPU time", "/s", "more", drawn=True),
    *SCALING[3:],
]
"""What one replica is described by."""


@dataclass
class Course:
    """Some replicas under one kind of load, and what was measured of them so far."""

    name: str
    title: str
    scenario: Scenario
    replicas: int
    whole: bool = False
    """Whether a replica may have all of its core, whatever its share."""
    skipped: str = ""
    failure: str = ""
    rounds: dict[int, Measured] = field(default_factory=dict)
    """By the round's number."""

    def row(self, single: "Course", share: float, prices: tuple[float, float]) -> Row:
        """What came of it.

        Args:
            single: the same with one replica, to compare with.
            share: of a core, for each replica.
            prices: of a core and of a GB, in $ per hour.
        """
        if not self.rounds:
            return Row(self.name, self.title, skipped=self.skipped, failure=self.failure)
        every = list(self.rounds.values())
        figures: dict[str, Sequence[float]] = {
            "rate": [each.rate for each in every],
            "efficiency": efficiency(self, single),
            "cpu": [each.cpu_us for each in every],
            "p50": [each.p50_ms for each in every],
            "p99": [each.p99_ms for each in every],
            "memory": [each.rss_mb for each in every],
            "cost": [cents(each, self.replicas, share, prices) for each in every],
            "time": [1e6 / each.cpu_us for each in every],
        }
        return row_of(self.name, self.title, figures, self.failure)


@dataclass(frozen=True)
class Ladder:
    """One kind of call: 1, 2, 3 … replicas, and one with a whole core."""

    title: str
    steps: Sequence[Course]
    """The first is one replica."""
    whole: Course

    @property
    def last(self) -> Course | None:
        """The most replicas that were measured beside one; None when there is no such case."""
        return next((step for step in self.steps[:0:-1] if efficiency(step, self.steps[0]) and not step.failure), None)

    @property
    def efficiency(self) -> float:
        """Percent of what one replica answers that each of the most answers; there are some."""
        return median(efficiency(self.last, self.steps[0])) if self.last else nan

    @property
    def measured(self) -> list[Measured]:
        """All of its steps, round by round."""
        return [each for step in self.steps for each in step.rounds.values()]


def efficiency(course: Course, single: Course) -> list[float]:
    """Calls of each replica in percent of those of one alone, round by round: a machine's speed wanders."""
    return [
        100 * each.rate / course.replicas / single.rounds[number].rate
        for number, each in course.rounds.items()
        if number in single.rounds
    ]


def cents(measured: Measured, replicas: int, share: float, prices: tuple[float, float]) -> float:
    """A million calls in US cents: the replicas' shares of cores and their memory, for as long as these calls take."""
    core, gb = prices
    hourly = replicas * (share * core + measured.rss_mb / 1000 * gb)
    return 100 * hourly * 1e6 / (measured.rate * 3600)
