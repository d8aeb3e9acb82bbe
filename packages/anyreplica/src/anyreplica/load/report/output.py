"""The report: on the terminal, and in the files of `--json` and `--csv`."""

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from anyreplica.load.compare import Change
from anyreplica.load.knee import Knee, Stage
from anyreplica.load.latency import Latency, Samples
from anyreplica.load.summary import Summary

_BAR = 40

_ROWS = 24
"""Maximum number of histogram rows; if there are more buckets, the last row combines the rest."""


def show(summary: Summary, broken: list[str], console: Console, changes: Sequence[Change] = ()) -> None:
    """Print the report; outside of a terminal it has no colours, and long lines are not wrapped.

    Args:
        summary: The summary of the run.
        broken: The broken thresholds, in words.
        console: Where to print.
        changes: Changes since an earlier run (--compare).
    """
    _summary(summary, console)
    _times(summary, console)
    if len(summary.steps) > 1:
        console.print("\n🧭 [bold]REQUESTS[/]")
        console.print(_steps(summary))
    console.print("\n🔄 [bold]REPLICA DISTRIBUTION[/]")
    console.print(_replicas(summary))
    console.print(
        f"   evenness {summary.evenness.index:.3f} (Jain's index: 1 is perfectly even; a fair balancer stays above "
        f"{summary.evenness.tolerance:.3f})",
        highlight=False,
        soft_wrap=True,
    )
    if changes:
        console.print("\n⚖️  [bold]COMPARISON WITH THE EARLIER RUN[/]")
        console.print(_changes(changes))
    _verdict(summary, broken, console)


def _changes(changes: Sequence[Change]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("  ", no_wrap=True)
    for title in ("before", "now", "change"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    styles = {"better": "[green]better[/]", "worse": "[red]worse[/]"}
    for change in changes:
        ratio = "" if change.ratio is None else f"{change.ratio - 1:+.1%}"
        figures = (f"{figure:,.2f} {change.unit}" for figure in (change.before, change.after))
        table.add_row(f"  {change.name}", *figures, ratio, styles.get(change.verdict, change.verdict))
    return table


def _summary(summary: Summary, console: Console) -> None:
    rate = summary.succeeded / summary.requests if summary.requests else 0
    console.print("\n📊 [bold]SUMMARY[/]")
    offered = f" ({summary.begun:,.1f}/s begun of {summary.offered:,.1f}/s offered)" if summary.offered else ""
    connecting = f", {_ms(summary.connecting.p50)} to connect (p50)" if summary.connections else ""
    for name, value in (
        ("requests", f"{summary.requests:,}"),
        ("successful", f"{summary.succeeded:,} ({rate:.1%})"),
        ("duration", f"{summary.seconds:.2f} s"),
        ("throughput", f"{summary.throughput:,.1f} successful requests/s{offered}"),
        ("connections", f"{summary.connections:,}{connecting}"),
    ):
        console.print(f"   {name:<14}{value}", highlight=False)
    for failure in summary.failures:
        console.print(f"   [red]✗ {failure.count:,} × {escape(failure.kind)}[/]", highlight=False, soft_wrap=True)
        if failure.example:
            console.print(f"     [dim]{escape(failure.example)}[/]", highlight=False, soft_wrap=True)


def _times(summary: Summary, console: Console) -> None:
    console.print("\n⏱️  [bold]RESPONSE TIMES[/] (ms)")
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("  ", no_wrap=True)
    for title in ("p50", "p75", "p90", "p95", "p99", "p99.9", "max"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_row("  successful", *_row(summary.latency))
    if summary.failed:
        table.add_row("  failed", *_row(summary.latency_failed))
    console.print(table)
    buckets = summary.histogram
    if len(buckets) < 2:
        return
    console.print()
    if len(buckets) > _ROWS:
        rest = sum(bucket.count for bucket in buckets[_ROWS - 1 :])
        shown = [(f"≤ {bucket.up_to_ms:g} ms", bucket.count) for bucket in buckets[: _ROWS - 1]]
        shown.append((f"> {buckets[_ROWS - 2].up_to_ms:g} ms", rest))
    else:
        shown = [(f"≤ {bucket.up_to_ms:g} ms", bucket.count) for bucket in buckets]
    most = max(count for _, count in shown)
    for label, count in shown:
        bar = "█" * round(_BAR * count / most) or ("▏" if count else "")
        console.print(f"   {label:>12} [cyan]{bar:<{_BAR}}[/] {count:,}", highlight=False)


def _steps(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("  request", no_wrap=True)
    for title in ("requests", "failed", "p50", "p99"):
        table.add_column(title, justify="right", no_wrap=True)
    for step in summary.steps:
        figures = (_ms(step.latency.p50), _ms(step.latency.p99))
        table.add_row(f"  {escape(step.name)}", f"{step.requests:,}", _failed(step.failed), *figures)
    return table


def _replicas(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("  replica", no_wrap=True)
    for title in ("requests", "conns", "share", "p50", "p99", "failed", "first", "last"):
        table.add_column(title, justify="right", no_wrap=True)
    for replica in summary.replicas:
        table.add_row(
            f"  {escape(replica.name)}",
            f"{replica.requests:,}",
            f"{replica.connections:,}",
            f"{replica.share:.1%}",
            _ms(replica.latency.p50),
            _ms(replica.latency.p99),
            _failed(replica.failed),
            f"{replica.first_seen:.1f} s",
            f"{replica.last_seen:.1f} s",
        )
    return table


def _verdict(summary: Summary, broken: list[str], console: Console) -> None:
    console.print("\n🏁 [bold]VERDICT[/]")
    if summary.generator.limit:
        words = f"The load generator may limit the result: {summary.generator.limit}."
        console.print(f"   [yellow]! {words}[/]", highlight=False, soft_wrap=True)
    for problem in broken:
        console.print(f"   [red]✗ {escape(problem)}[/]", highlight=False, soft_wrap=True)
    if summary.problems or broken:
        reasons = summary.problems or ["a threshold broke" if len(broken) == 1 else f"{len(broken)} thresholds broke"]
        console.print(f"   [bold red]✗ FAILED[/]: {'; '.join(reasons)}.", soft_wrap=True, highlight=False)
    else:
        console.print(
            f"   [bold green]✓ PASSED[/]: every request succeeded; replicas that took part: {len(summary.replicas)} "
            f"(expected: {summary.expected_replicas}).",
            soft_wrap=True,
            highlight=False,
        )


def _row(latency: Latency) -> tuple[str, ...]:
    figures = (latency.p50, latency.p75, latency.p90, latency.p95, latency.p99, latency.p99_9, latency.max)
    return tuple("–" if value is None else f"{value:,.1f}" for value in figures)


def _failed(count: int) -> str:
    return f"[red]{count:,}[/]" if count else "0"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f} ms"


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
            f"   At least {knee.best.rate:,.0f}/s: the search ended before a threshold broke.",
            highlight=False,
        )
    else:
        found = f"[bold]{knee.best.rate:,.0f}/s[/] is good, {knee.worst.rate:,.0f}/s is too much"
        console.print(f"   {found}: {escape('; '.join(knee.worst.broken))}", highlight=False, soft_wrap=True)
        if knee.limited_by_generator:
            words = f"The load generator may be the limit, not the server: {knee.worst.summary.generator.limit}."
            console.print(f"   [yellow]! {words}[/]", highlight=False, soft_wrap=True)
    console.print("   The report below is for the best rate.", highlight=False)


SCHEMA = Path(__file__).with_name("schema.json")
"""The JSON Schema of the result of `as_json`."""

VERSION = 1
"""Version of the JSON format; a change that breaks readers increases it."""


def as_json(summary: Summary, broken: list[str], command: str, began: str, knee: Knee | None = None) -> dict[str, Any]:
    """Return all figures and the verdict in the form of `SCHEMA`.

    Args:
        summary: The summary of the run; with `knee`, of its best rate, or of its last rate if none was good.
        broken: The broken thresholds, in words.
        command: The command line of the run.
        began: Start of the run, as ISO 8601 in UTC.
        knee: The result of a search for the knee, if there was one.
    """
    return {
        "version": VERSION,
        "command": command,
        "began": began,
        **asdict(summary),
        "failed": summary.failed,
        "generator": {**asdict(summary.generator), "limit": summary.generator.limit},
        "stages": [_stage(stage) for stage in knee.stages] if knee else [],
        "problems": summary.problems,
        "broken_thresholds": broken,
        "passed": not (summary.problems or broken),
    }


def _stage(stage: Stage) -> dict[str, Any]:
    summary = stage.summary
    return {
        "rate": stage.rate,
        "throughput": summary.throughput,
        "p50": summary.latency.p50,
        "p99": summary.latency.p99,
        "failed": summary.failed,
        "broken": stage.broken,
    }


def write_json(file: Path, figures: dict[str, Any]) -> None:
    """Write the figures as JSON.

    Raises:
        OSError: The file can't be written.
    """
    file.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


def write_csv(file: Path, samples: Samples) -> None:
    """Write one line per request; times are in seconds since the start, and `error` is empty for a success.

    Raises:
        OSError: The file can't be written.
    """
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("begun", "ended", "ms", "error", "replica", "request", "connection"))
        for each in samples:
            times = (f"{each.started:.6f}", f"{each.ended:.6f}", f"{each.seconds * 1000:.3f}")
            writer.writerow((*times, each.kind, each.replica, each.name, each.connection))
