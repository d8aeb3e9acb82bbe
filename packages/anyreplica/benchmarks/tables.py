"""Tables of figures as Markdown and on a terminal."""

import math

from rich.console import Console
from rich.table import Table as TerminalTable
from rich.text import Text

from benchmarks.study import Column, Row, Spread, Study, Table

_NONE = "–"


def number(value: float) -> str:
    """Return a number with three significant digits, or with all digits before the point."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    return f"{value:,.{min(digits, 4)}f}" if value != int(value) or abs(value) < 1 else f"{value:,.0f}"


def figure(spread: Spread) -> str:
    """Return the median, with the smallest and the largest value where they differ."""
    if spread.min == spread.max:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.min)}–{number(spread.max)})"


def cells(row: Row, columns: list[Column]) -> list[str]:
    """Return the texts of a row. If the row has no figures, the text after the title says why."""
    if not row.figures:
        reason = f"✗ {row.failure}" if row.failure else f"skipped: {row.skipped}" if row.skipped else _NONE
        return [row.title, reason, *[""] * (len(columns) - 1)]
    return [f"✗ {row.title}" if row.failure else row.title, *(_cell(row, column) for column in columns)]


def _cell(row: Row, column: Column) -> str:
    if column.name not in row.figures:
        return _NONE
    spread = row.figures[column.name]
    limited = row.figures.get(column.limits)
    if limited is None:
        return figure(spread)
    return f"{'✗' if limited.median > spread.median else '✓'} {spread.median:g}"


def markdown(table: Table) -> str:
    """Return a table in Markdown."""
    lines = [["", *(column.heading for column in table.columns)], ["---", *["---:"] * len(table.columns)]]
    lines += [cells(row, table.columns) for row in table.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def show(study: Study, console: Console) -> None:
    """Print a study; in a pipe without colours and as wide as the tables need."""
    rounds = "1 round" if study.rounds == 1 else f"{study.rounds} rounds"
    rough = " Quick run: the figures are rough." if study.quick else ""
    console.print(str(study.machine), highlight=False, soft_wrap=True)
    console.print(f"Medians (smallest–largest) of {rounds}.{rough}", highlight=False, soft_wrap=True)
    for table in study.tables:
        console.print(f"\n[bold]{table.title}[/]", highlight=False)
        shown = TerminalTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        shown.add_column("", no_wrap=True)
        for column in table.columns:
            shown.add_column(column.heading, justify="right", no_wrap=True)
        for row in table.rows:
            if row.figures:
                shown.add_row(*(_coloured(cell) for cell in cells(row, table.columns)))
        console.print(shown, soft_wrap=True)
    console.print()
    for kind, lines in (("failed", study.failures), ("missed", study.missed), ("skipped", study.skipped)):
        for line in lines:
            console.print(_coloured(f"{'' if kind == 'skipped' else '✗ '}{kind}: {line}"), soft_wrap=True)


def _coloured(cell: str) -> Text:
    return Text(cell, style="red" if cell.startswith("✗") else "green" if cell.startswith("✓") else "")
