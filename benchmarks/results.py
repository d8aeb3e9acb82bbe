"""The figures of a whole run; `as_json` is what `--json` writes.

The names of members say the unit: `_us` microseconds, `_ms` milliseconds, `_mb` MB (10⁶ bytes). Without a suffix:
counts, ratios, names. Each figure that was measured in several rounds is a `Spread`. A member that doesn't apply is
null: a target that isn't set, a figure of what was not measured.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from benchmarks.machine import Machine
from benchmarks.sample import Sample
from benchmarks.scenarios import Scenario
from benchmarks.spread import Spread

SCHEMA = 1
"""Raised when a member changes its meaning or goes."""

JUDGED = 32
"""Connections under which a ratio is held against its target: the server is busy, so that its speed follows from it."""


@dataclass(frozen=True)
class LoadFigures:
    """One scenario under one number of connections."""

    connections: int
    requests: int
    """In all rounds together."""
    errors: int
    """Of these, replies that were wrong."""
    cpu_us: Spread
    """User and system time of the server's process per request."""
    ratio: Spread
    """That, as a multiple of the floor's right before it under as many connections."""
    per_second: Spread
    """Requests per second."""
    p50_ms: Spread
    p99_ms: Spread
    busy: Spread
    """CPU time of the server per time: below 1 the server waited for the load."""

    @classmethod
    def of(cls, connections: int, samples: Sequence[Sample], floor: Sequence[Sample]) -> Self:
        """The figures of one sample a round, and the floor's right before each."""
        return cls(
            connections=connections,
            requests=sum(sample.requests for sample in samples),
            errors=sum(sample.errors for sample in samples),
            cpu_us=Spread.of([sample.cpu_us for sample in samples]),
            ratio=Spread.of([mine.cpu_us / least.cpu_us for mine, least in zip(samples, floor, strict=True)]),
            per_second=Spread.of([sample.per_second for sample in samples]),
            p50_ms=Spread.of([sample.p50_ms for sample in samples]),
            p99_ms=Spread.of([sample.p99_ms for sample in samples]),
            busy=Spread.of([sample.busy for sample in samples]),
        )


@dataclass(frozen=True)
class ScenarioFigures:
    """One scenario."""

    name: str
    title: str
    target: float | None
    """Most that the ratio's median may be, under 32 connections."""
    met: bool | None
    failure: str
    """Why there are no figures, or why they don't count; empty if all is well."""
    rss_before_mb: float | None
    """Resident memory when the server was ready."""
    rss_after_mb: float | None
    """Resident memory after the last round."""
    loads: list[LoadFigures]

    @classmethod
    def of(cls, scenario: Scenario, failure: str, rss: Sequence[float], loads: list[LoadFigures]) -> Self:
        """The figures of a scenario.

        Args:
            rss: resident memory in MB, when it was ready and after the last round; fewer when it failed.
        """
        figures = cls(
            name=scenario.name,
            title=scenario.title,
            target=scenario.target,
            met=None,
            failure=failure,
            rss_before_mb=rss[0] if rss else None,
            rss_after_mb=rss[1] if len(rss) > 1 else None,
            loads=loads,
        )
        if figures.target is None or figures.judged is None:
            return figures
        return replace(figures, met=not failure and figures.judged.ratio.median <= figures.target)

    @property
    def judged(self) -> LoadFigures | None:
        """The figures that are held against the target."""
        return next((load for load in self.loads if load.connections == JUDGED), None)


@dataclass(frozen=True)
class Figure:
    """One figure that stands for itself: of the process as a whole, or of jobs."""

    name: str
    title: str
    unit: str
    """`s`, `ms`, `MB` (10⁶ bytes), `bytes`, or the name of what is counted."""
    value: Spread | None
    target: float | None
    """Most that the median may be; none for what the others are compared with."""
    met: bool | None
    failure: str

    @classmethod
    def of(cls, name: str, title: str, unit: str, values: Sequence[float], target: float | None, failure: str) -> Self:
        """The figure of values that were measured; none when it failed."""
        value = Spread.of(values) if values else None
        met = None if value is None or target is None else value.median <= target
        return cls(name, title, unit, value, target, met, failure)


@dataclass(frozen=True)
class Results:
    """A whole run."""

    schema: int
    command: str
    began: str
    """UTC, ISO 8601."""
    machine: Machine
    quick: bool
    """Whether rounds were so short that the figures are rough."""
    rounds: int
    seconds: float
    """Of each measurement: one scenario under one number of connections in one round."""
    took: float
    """Seconds, the whole run."""
    versions: dict[str, str]
    """Of what was measured, by name."""
    log_level: str
    """Of the servers; the access log is on up to INFO."""
    scenarios: list[ScenarioFigures]
    """The floor first, when anything is compared with it."""
    process: list[Figure]

    @property
    def failures(self) -> list[str]:
        """What could not be measured, or not rightly; a line each."""
        parts: list[ScenarioFigures | Figure] = [*self.scenarios, *self.process]
        return [f"{part.name}: {part.failure}" for part in parts if part.failure]

    @property
    def missed(self) -> list[str]:
        """Targets that were measured and missed; a line each."""
        found = []
        for scenario in self.scenarios:
            if scenario.met is False and scenario.judged:
                ratio = scenario.judged.ratio.median
                found.append(f"{scenario.name}: {ratio:.2f} times the floor, not {scenario.target:g}")
        return found + [
            f"{figure.name}: {figure.value.median:.2f} {figure.unit}, not {figure.target:g}"
            for figure in self.process
            if figure.met is False and figure.value
        ]

    def as_json(self) -> dict[str, Any]:
        """This, and the verdicts."""
        return {**asdict(self), "failures": self.failures, "missed": self.missed}
