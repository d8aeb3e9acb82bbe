"""Figures as a person reads them: three digits that count, and no more."""

import math

from benchmarks.spread import Spread
from benchmarks.study.study import Column, Row

NONE = "–"


def number(value: float) -> str:
    """Three significant digits, all those before the point, thousands apart."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    return f"{value:,.{min(digits, 4)}f}" if value != int(value) or abs(value) < 1 else f"{value:,.0f}"


def figure(spread: Spread) -> str:
    """The median, and the least and the most where they differ."""
    if spread.min == spread.max:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.min)}–{number(spread.max)})"


def heading(column: Column) -> str:
    """A column's title with its unit."""
    return f"{column.title}, {column.unit}" if column.unit else column.title


def cells(row: Row, columns: list[Column]) -> list[str]:
    """A row as text; a case without figures has its reason in the first of them."""
    if not row.figures:
        reason = f"✗ {row.failure}" if row.failure else f"skipped: {row.skipped}" if row.skipped else NONE
        return [row.title, reason, *[""] * (len(columns) - 1)]
    values = [figure(row.figures[column.name]) if column.name in row.figures else NONE for column in columns]
    return [f"✗ {row.title}" if row.failure else row.title, *values]
