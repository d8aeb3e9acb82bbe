"""One claim, measured: what `--json` writes, and what the page, the terminal and BENCHMARKS.md show.

Every figure is a `Spread` over rounds in the unit of its column. What could not be measured has a reason in its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from benchmarks.machine import Machine
from benchmarks.spread import Spread

SCHEMA = 1
"""Raised when a member changes its meaning or goes."""


@dataclass(frozen=True)
class Column:
    """One figure that rows have."""

    name: str
    """The key in `Row.figures`."""
    title: str
    unit: str = ""
    """As it is printed: `ms`, `µs`, `MB` (10⁶ bytes), `/s`, `%`, `×`; nothing for counts."""
    better: Literal["less", "more", ""] = ""
    drawn: bool = False
    """Whether the page draws it as bars."""


@dataclass(frozen=True)
class Row:
    """One case."""

    name: str
    """For machines, and for what compares runs."""
    title: str
    figures: dict[str, Spread] = field(default_factory=dict)
    """By the column's name; one that is missing was not measured."""
    skipped: str = ""
    """Why it was not tried, such as a program that isn't installed."""
    failure: str = ""
    """Why there are no figures, or why they don't count."""


@dataclass(frozen=True)
class Table:
    """Cases that can be compared."""

    name: str
    title: str
    columns: list[Column]
    rows: list[Row]
    note: str = ""
    """What one has to know to read it."""

    def median(self, row: str, column: str) -> float | None:
        """A figure by its names; None when it was not measured."""
        found = next((each for each in self.rows if each.name == row), None)
        spread = found.figures.get(column) if found else None
        return spread.median if spread else None


@dataclass(frozen=True)
class Line:
    """One line of a plot."""

    title: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Plot:
    """Something over something, such as memory over time."""

    title: str
    across: str
    """Unit of the axis from left to right, such as `s`."""
    upright: str
    lines: list[Line]


@dataclass(frozen=True)
class Assumption:
    """A number of the model that is nobody's measurement here, or a measured one to start from."""

    name: str
    """As the formulas have it."""
    title: str
    value: float
    unit: str = ""
    measured: bool = False


@dataclass(frozen=True)
class Formula:
    """One step of the model."""

    name: str
    title: str
    text: str
    """In names of assumptions and of formulas before it, with `+ - * /`, parentheses and `ceil()`."""
    unit: str = ""


@dataclass(frozen=True)
class Model:
    """What follows from the figures, if the assumptions hold."""

    assumptions: list[Assumption]
    formulas: list[Formula]


@dataclass(frozen=True)
class Findings:
    """What a script measured."""

    tables: list[Table]
    """The first is the one that BENCHMARKS.md shows."""
    sentence: str
    """What it means, in one sentence."""
    meaning: str
    """What it means for a user, in a paragraph."""
    plots: list[Plot] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """Of what was measured and of what measured, by name."""
    model: Model | None = None
    missed: list[str] = field(default_factory=list)
    """Targets that were measured and missed; a line each."""


@dataclass(frozen=True)
class Study:
    """A whole run."""

    schema: int
    name: str
    """The script's."""
    title: str
    claim: str
    """What is to be shown, or to be refuted."""
    command: str
    began: str
    """UTC, ISO 8601."""
    seconds: float
    """The run took."""
    machine: Machine
    quick: bool
    """Whether it was so short that the figures are rough."""
    rounds: int
    findings: Findings

    @property
    def failures(self) -> list[str]:
        """What could not be measured, or not rightly; a line each."""
        return self._lines("failure")

    @property
    def skipped(self) -> list[str]:
        """What was not tried; a line each."""
        return self._lines("skipped")

    def _lines(self, member: str) -> list[str]:
        rows = [row for table in self.findings.tables for row in table.rows if getattr(row, member)]
        return list(dict.fromkeys(f"{row.title}: {getattr(row, member)}" for row in rows))

    def as_json(self) -> dict[str, Any]:
        """What `read` takes."""
        return asdict(self)


def read(text: str) -> Study:
    """The run that `as_json` was written of.

    Raises:
        ValueError: it is none, or of another schema.
    """
    study = TypeAdapter(Study).validate_json(text)
    if study.schema != SCHEMA:
        raise ValueError(f"a file of schema {study.schema}, not {SCHEMA}: measure anew")
    return study


def row_of(name: str, title: str, rounds: Mapping[str, Sequence[float]], failure: str = "") -> Row:
    """A case by the values that its rounds gave, by column."""
    return Row(name, title, {column: Spread.of(values) for column, values in rounds.items() if values}, "", failure)
