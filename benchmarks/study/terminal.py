"""A study on a terminal, or in a pipe: its tables, and what they mean."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.study.model import evaluate
from benchmarks.study.study import Model, Study
from benchmarks.study.words import cells, heading, number


def show(study: Study, console: Console) -> None:
    """Print it; where no terminal is, without colours and as wide as it needs to be."""
    rounds = "1 round" if study.rounds == 1 else f"{study.rounds} rounds"
    rough = " Quick: the figures are rough." if study.quick else ""
    console.print(f"[bold]{study.title}[/]", highlight=False)
    console.print(str(study.machine), highlight=False, soft_wrap=True)
    console.print(f"Medians (least–most) of {rounds}.{rough}", highlight=False, soft_wrap=True)
    for table in study.findings.tables:
        shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        shown.add_column("", no_wrap=True)
        for column in table.columns:
            shown.add_column(heading(column), justify="right", no_wrap=True)
        for row in (row for row in table.rows if row.figures):
            texts = [Text(cell, style="red" if cell.startswith("✗") else "") for cell in cells(row, table.columns)]
            shown.add_row(*texts)
        console.print(f"\n[bold]{table.title}[/]", highlight=False)
        console.print(shown, soft_wrap=True)
        for row in (row for row in table.rows if row.skipped):
            console.print(Text(f"{row.title}: skipped: {row.skipped}"), highlight=False, soft_wrap=True)
        if table.note:
            console.print(Text(table.note), highlight=False, soft_wrap=True)
    if study.findings.model:
        _model(study.findings.model, console)
    console.print(f"\n{study.findings.meaning}", markup=False, highlight=False, soft_wrap=True)
    for line in study.failures:
        console.print(Text(f"✗ failed: {line}", style="red"), soft_wrap=True)
    for line in study.findings.missed:
        console.print(Text(f"✗ missed: {line}", style="red"), soft_wrap=True)


def _model(model: Model, console: Console) -> None:
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("", "value", "", "name, or how it follows"):
        shown.add_column(title, justify="right" if title == "value" else "left", no_wrap=True)
    for assumption in model.assumptions:
        kind = " (measured)" if assumption.measured else ""
        shown.add_row(assumption.title + kind, number(assumption.value), assumption.unit, assumption.name)
    results = evaluate(model)
    for formula in model.formulas:
        shown.add_row(f"→ {formula.title}", number(results[formula.name]), formula.unit, formula.text)
    console.print("\n[bold]The model[/]", highlight=False)
    console.print(shown, soft_wrap=True)
