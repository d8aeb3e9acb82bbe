"""The report that a person reads, on a terminal or in BENCHMARKS.md."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.results import Figure, LoadFigures, Results, ScenarioFigures
from benchmarks.spread import Spread

_NONE = "–"
_DIGITS = {"s": 2, "ms": 2, "MB": 1}
"""Behind the point, by unit; others have none."""


@dataclass(frozen=True)
class _Section:
    title: str
    columns: Sequence[str]
    """The first is of text, the others of figures."""
    rows: Sequence[Sequence[str]]


def show(results: Results, console: Console) -> None:
    """Print the report; in a pipe it has no colours and is as wide as it needs to be."""
    console.print(str(results.machine), highlight=False, soft_wrap=True)
    console.print(_how(results), highlight=False, soft_wrap=True)
    for section in _sections(results):
        shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for at, column in enumerate(section.columns):
            shown.add_column(column, justify="right" if at else "left", no_wrap=True)
        for row in section.rows:
            shown.add_row(*(_coloured(cell) for cell in row))
        console.print(f"\n[bold]{section.title}[/]", highlight=False)
        console.print(shown, soft_wrap=True)
    for line in _verdict(results):
        console.print(_coloured(line), soft_wrap=True)


def markdown(results: Results) -> str:
    """The report for BENCHMARKS.md: the command, the machine, the tables."""
    parts = [f"```bash\n{results.command}\n```", f"{results.machine}; {results.began[:10]}.", _how(results)]
    for section in _sections(results):
        parts += [f"**{section.title}**", table(section.columns, section.rows)]
    parts += ["\n".join(f"- {line}" for line in _verdict(results))]
    return "\n\n".join(parts) + "\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, its first column of text, the others of figures."""
    rule = ["---", *("---:" for _ in columns[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, rule, *rows))


def cells(figure: Figure) -> list[str]:
    """The row of a figure that stands for itself: what it is, measured, target, whether that is met."""
    digits = _DIGITS.get(figure.unit, 0)
    measured = f"{_with_spread(figure.value, digits)} {figure.unit}" if figure.value else _NONE
    target = _NONE if figure.target is None else f"≤ {figure.target:g} {figure.unit}"
    return [figure.title, measured, target, _mark(met=figure.met, failure=figure.failure)]


def _how(results: Results) -> str:
    rounds = "1 round" if results.rounds == 1 else f"{results.rounds} rounds"
    rough = " Quick: the figures are rough." if results.quick else ""
    return f"Medians (least–most) of {rounds}, {results.seconds:g} s for each figure.{rough}"


def _sections(results: Results) -> list[_Section]:
    sections = []
    if results.scenarios:
        cpu = ("scenario", "µs, 32 in flight", "× floor", "target", "", "µs, 1 in flight", "× floor")
        sections.append(_Section("CPU time per request", cpu, [_cpu(scenario) for scenario in results.scenarios]))
        rates = ("scenario", "req/s, 32", "p50 ms", "p99 ms", "req/s, 1", "p50 ms", "p99 ms", "memory MB", "wrong")
        rows = [_rates(scenario) for scenario in results.scenarios]
        sections.append(_Section("Rate and latency with 32 and with 1 in flight; memory before → after", rates, rows))
    if results.process:
        whole = ("process", "measured", "target", "")
        sections.append(_Section("The process as a whole", whole, [cells(figure) for figure in results.process]))
    return sections


def _cpu(scenario: ScenarioFigures) -> list[str]:
    few, many = _loads(scenario)
    target = _NONE if scenario.target is None else f"≤ {scenario.target:g}"
    cells = [_with_spread(many.cpu_us, 1), _with_spread(many.ratio, 2)] if many else [_NONE] * 2
    single = [f"{few.cpu_us.median:,.1f}", f"{few.ratio.median:.2f}"] if few else [_NONE] * 2
    return [scenario.title, *cells, target, _mark(met=scenario.met, failure=scenario.failure), *single]


def _rates(scenario: ScenarioFigures) -> list[str]:
    cells = [scenario.title]
    few, many = _loads(scenario)
    for load in (many, few):
        if load is None:
            cells += [_NONE] * 3
        else:
            cells += [f"{load.per_second.median:,.0f}", f"{load.p50_ms.median:.2f}", f"{load.p99_ms.median:.2f}"]
    memory = (scenario.rss_before_mb, scenario.rss_after_mb)
    cells.append(" → ".join(_NONE if figure is None else f"{figure:.1f}" for figure in memory))
    cells.append(f"{sum(load.errors for load in scenario.loads):,}" if scenario.loads else _NONE)
    return cells


def _loads(scenario: ScenarioFigures) -> tuple[LoadFigures | None, LoadFigures | None]:
    by_connections = {load.connections: load for load in scenario.loads}
    return by_connections.get(1), by_connections.get(32)


def _with_spread(spread: Spread, digits: int) -> str:
    median = f"{spread.median:,.{digits}f}"
    if spread.min == spread.max:
        return median
    return f"{median} ({spread.min:,.{digits}f}–{spread.max:,.{digits}f})"


def _mark(*, met: bool | None, failure: str) -> str:
    if failure:
        return "✗"
    return {True: "✓", False: "✗", None: ""}[met]


def _verdict(results: Results) -> list[str]:
    lines = [f"✗ failed: {failure}" for failure in results.failures]
    lines += [f"✗ missed: {missed}" for missed in results.missed]
    return lines or ["✓ every target that was measured is met, and every reply was right"]


def _coloured(cell: str) -> Text:
    """A cell as it is (no markup in it is meant), red or green by its mark."""
    return Text(cell, style="red" if cell.startswith("✗") else "green" if cell.startswith("✓") else "")
