"""What a search for the knee tells a person."""

from rich.console import Console
from rich.markup import escape

from mcp_swarm.loadtest.knee import Knee, Stage


def show_stage(stage: Stage, console: Console) -> None:
    """Print what came of a rate, in a line."""
    p50, p99 = (_ms(value) for value in (stage.summary.latency.p50, stage.summary.latency.p99))
    verdict = f"[red]✗ {escape('; '.join(stage.broken))}[/]" if stage.broken else "[green]✓[/]"
    console.print(f"   {stage.rate:>9,.0f}/s  p50 {p50:>10}  p99 {p99:>10}  {verdict}", highlight=False, soft_wrap=True)


def show_knee(knee: Knee, console: Console) -> None:
    """Print what was found, ahead of the report of the best run."""
    console.print("\n🦵 [bold]KNEE[/]")
    if knee.best is None:
        console.print("   [red]There is none: no rate that was tried held.[/]", highlight=False)
    elif knee.worst is None:
        console.print(f"   above {knee.best.rate:,.0f}/s, where the search was interrupted", highlight=False)
    else:
        found = f"[bold]{knee.best.rate:,.0f}/s[/] holds, {knee.worst.rate:,.0f}/s doesn't"
        console.print(f"   {found}: {escape('; '.join(knee.worst.broken))}", highlight=False, soft_wrap=True)
        if knee.limited_by_generator:
            words = f"This may be the generator's knee: {knee.worst.summary.generator.limit}."
            console.print(f"   [yellow]! {words}[/]", highlight=False, soft_wrap=True)
    console.print("   What follows is of the best rate.", highlight=False)


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f} ms"
