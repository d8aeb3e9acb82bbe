"""The terminal report of a search for the highest sustained rate (--find-max)."""

from rich.console import Console
from rich.markup import escape

from anyreplica.load.knee import Knee, Stage


def show_stage(stage: Stage, console: Console) -> None:
    """Print one line with the result of a rate."""
    p50, p99 = (_ms(value) for value in (stage.summary.latency.p50, stage.summary.latency.p99))
    verdict = f"[red]✗ {escape('; '.join(stage.broken))}[/]" if stage.broken else "[green]✓[/]"
    console.print(f"   {stage.rate:>9,.0f}/s  p50 {p50:>10}  p99 {p99:>10}  {verdict}", highlight=False, soft_wrap=True)


def show_knee(knee: Knee, console: Console) -> None:
    """Print the result of the search; the report of the best run follows it."""
    console.print("\n📈 [bold]HIGHEST SUSTAINED RATE[/]")
    if knee.best is None:
        console.print("   [red]Not found: a threshold broke at every rate.[/]", highlight=False)
        console.print("   The report below is for the last rate.", highlight=False)
        return
    if knee.worst is None:
        console.print(
            f"   At least {knee.best.rate:,.0f}/s: the search was interrupted before a threshold broke.",
            highlight=False,
        )
    else:
        found = f"[bold]{knee.best.rate:,.0f}/s[/] is good, {knee.worst.rate:,.0f}/s is too much"
        console.print(f"   {found}: {escape('; '.join(knee.worst.broken))}", highlight=False, soft_wrap=True)
        if knee.limited_by_generator:
            words = f"The load generator may be the limit, not the server: {knee.worst.summary.generator.limit}."
            console.print(f"   [yellow]! {words}[/]", highlight=False, soft_wrap=True)
    console.print("   The report below is for the best rate.", highlight=False)


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f} ms"
