"""The figures of one study: the format of `--json` and of `benchmarks/figures/`."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from pydantic import TypeAdapter

from benchmarks.machine import Machine


@dataclass(frozen=True)
class Spread:
    """One figure over several rounds."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the spread of at least one value, with six significant digits."""
        return cls(*(float(f"{value:.6g}") for value in (statistics.median(values), min(values), max(values))))


@dataclass(frozen=True)
class Column:
    """One figure that rows have."""

    name: str
    """Key in `Row.figures`."""
    title: str
    unit: str = ""
    """Unit as printed: `ms`, `µs`, `MB` (10⁶ bytes), `/s`, `%`, `×`; empty for counts."""
    limits: str = ""
    """For a column of targets: name of the column with the figures that the targets limit. Empty: no targets."""

    @property
    def heading(self) -> str:
        """Title with the unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


@dataclass(frozen=True)
class Row:
    """The figures of one case."""

    name: str
    title: str
    figures: dict[str, Spread] = field(default_factory=dict)
    """Spreads by the column's name; figures that were not measured are missing."""
    skipped: str = ""
    """Reason why the case was not tried, such as a missing program."""
    failure: str = ""
    """Reason why figures are missing or do not count."""

    @classmethod
    def of(cls, name: str, title: str, rounds: Mapping[str, Sequence[float]], failure: str = "") -> Self:
        """Return a row with the spreads of `rounds`, which has the values of all rounds by the column's name."""
        return cls(name, title, {column: Spread.of(values) for column, values in rounds.items() if values}, "", failure)


@dataclass(frozen=True)
class Table:
    """Cases that can be compared."""

    name: str
    title: str
    columns: list[Column]
    rows: list[Row]

    def spread(self, row: str, column: str) -> Spread:
        """Return a figure by the names of its row and its column.

        Raises:
            KeyError: The figure was not measured.
        """
        return {each.name: each for each in self.rows}[row].figures[column]

    @property
    def missed(self) -> list[str]:
        """Targets that were measured and missed, one line each."""
        found = []
        for limit in (column for column in self.columns if column.limits):
            for row in self.rows:
                value, most = row.figures.get(limit.limits), row.figures.get(limit.name)
                if value and most and value.median > most.median:
                    found.append(f"{row.title}: {value.median:.4g}, target {most.median:g}")
        return found


@dataclass(frozen=True)
class Study:
    """A whole run of one study."""

    name: str
    """Module below `benchmarks`."""
    command: str
    began: str
    """Start of the run: UTC, ISO 8601."""
    seconds: float
    """Duration of the run."""
    machine: Machine
    quick: bool
    """True if the run was so short that the figures are rough."""
    rounds: int
    versions: dict[str, str]
    """Versions of the measured programs and packages, by name."""
    tables: list[Table]

    def table(self, name: str) -> Table:
        """Return a table by its name.

        Raises:
            KeyError: The study has no such table.
        """
        return {table.name: table for table in self.tables}[name]

    @property
    def failures(self) -> list[str]:
        """Cases that could not be measured or gave wrong replies, one line each."""
        return self._lines("failure")

    @property
    def skipped(self) -> list[str]:
        """Cases that were not tried, one line each."""
        return self._lines("skipped")

    @property
    def missed(self) -> list[str]:
        """Targets that were measured and missed, one line each."""
        return [line for table in self.tables for line in table.missed]

    def _lines(self, member: str) -> list[str]:
        rows = [row for table in self.tables for row in table.rows if getattr(row, member)]
        return list(dict.fromkeys(f"{row.title}: {getattr(row, member)}" for row in rows))


def read(text: str) -> Study:
    """Read what `--json` wrote.

    Raises:
        ValueError: The text is not a study.
    """
    return TypeAdapter(Study).validate_json(text)
