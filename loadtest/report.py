"""The report that a person reads."""

from rich.console import Console
from rich.table import Table

from loadtest.summary import Latency, Summary


def show(summary: Summary, console: Console) -> None:
    """Print the report; in a pipe it has no colours and is as wide as it needs to be."""
    rate = summary.succeeded / summary.requests if summary.requests else 0
    console.print("\n📊 [bold]SUMMARY[/]")
    console.print(f"   requests      {summary.requests}")
    console.print(f"   successful    {summary.succeeded} ({rate:.1%})")
    console.print(f"   duration      {summary.seconds:.2f} s")
    console.print(f"   throughput    {summary.throughput:.1f} successful calls/s")
    for kind, count in summary.errors.items():
        console.print(f"   [red]✗ {count} × {kind}[/]", highlight=False)

    console.print("\n⏱️  [bold]RESPONSE TIMES[/] (successful calls)")
    latency = summary.latency
    for name, value in (
        ("p50", latency.p50),
        ("p95", latency.p95),
        ("p99", latency.p99),
        ("max", latency.max),
    ):
        console.print(f"   {name}           {_ms(value)}")

    console.print("\n🔄 [bold]REPLICA DISTRIBUTION[/]")
    console.print(_replicas(summary))

    console.print("\n🏁 [bold]VERDICT[/]")
    if summary.problems:
        console.print(f"   [bold red]✗ FAILED[/]: {'; '.join(summary.problems)}.", soft_wrap=True)
    else:
        console.print(
            f"   [bold green]✓ PASSED[/]: every call succeeded; replicas that took part: {len(summary.replicas)}, "
            f"expected: {summary.expected_replicas}.",
            soft_wrap=True,
        )


def _replicas(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    table.add_column("  replica", no_wrap=True)
    for title in ("requests", "share", "p50", "p99", "failed"):
        table.add_column(title, justify="right", no_wrap=True)
    for replica in summary.replicas:
        figures: Latency = replica.latency
        failed = replica.requests - replica.succeeded
        table.add_row(
            f"  {replica.name}",
            str(replica.requests),
            f"{replica.share:.1%}",
            _ms(figures.p50),
            _ms(figures.p99),
            f"[red]{failed}[/]" if failed else "0",
        )
    return table


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} ms"
