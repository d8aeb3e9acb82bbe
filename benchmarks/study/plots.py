"""What the page draws: bars of a table's columns, and lines over time."""

from dataclasses import dataclass

from mcp_swarm.loadtest.report.drawing import HEIGHT, WIDTH, Chart, Shape, Tick, colour, scale_of

from benchmarks.study.study import Column, Plot, Table
from benchmarks.study.words import figure, heading


@dataclass(frozen=True)
class Bar:
    """One case's figure; places are percent of the room."""

    title: str
    words: str
    length: float
    least: float
    most: float
    best: bool


@dataclass(frozen=True)
class Bars:
    """One column of a table."""

    title: str
    hint: str
    bars: list[Bar]


def bars(table: Table) -> list[Bars]:
    """The columns of a table that are to be drawn."""
    return [drawn for column in table.columns if column.drawn and (drawn := _column(table, column)).bars]


def _column(table: Table, column: Column) -> Bars:
    found = [(row, row.figures[column.name]) for row in table.rows if column.name in row.figures]
    end = max((spread.max for _, spread in found), default=0) or 1
    medians = [spread.median for _, spread in found] or [0.0]
    best = {"less": min(medians), "more": max(medians), "": None}[column.better]
    return Bars(
        heading(column),
        {"less": "less is better", "more": "more is better", "": ""}[column.better],
        [
            Bar(
                row.title,
                figure(spread),
                length=100 * spread.median / end,
                least=100 * spread.min / end,
                most=100 * spread.max / end,
                best=spread.median == best,
            )
            for row, spread in found
        ],
    )


def lines(plot: Plot) -> Chart:
    """A plot as the pages draw it; both axes begin at zero."""
    right = max((x for line in plot.lines for x, _ in line.points), default=0) or 1
    scale, upright = scale_of(max((y for line in plot.lines for _, y in line.points), default=0))
    shapes = [
        Shape(f"l{colour(number)}", [(WIDTH * x / right, HEIGHT - y * scale) for x, y in line.points])
        for number, line in enumerate(plot.lines)
    ]
    across = [Tick(share, f"{right * share / 100:,.4g} {plot.across}".strip()) for share in (0, 25, 50, 75, 100)]
    legend = [(colour(number), line.title) for number, line in enumerate(plot.lines)]
    return Chart(plot.title, plot.upright, across, upright, [], shapes, legend)
