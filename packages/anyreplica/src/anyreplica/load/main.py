"""The load test program: it reads the command line, generates the load, prints the report, returns the exit code."""

import asyncio
import shlex
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from anyreplica.load import workers
from anyreplica.load.compare import compare
from anyreplica.load.knee import Knee, find
from anyreplica.load.latency import percentile
from anyreplica.load.message import LoadTarget, Writer
from anyreplica.load.options import SCRIPT, Options, read
from anyreplica.load.report import output, page
from anyreplica.load.run import constant
from anyreplica.load.summary import Summary, summarize
from anyreplica.load.workers import LiveTick, Measured, WorkerError, measure

_WINDOW = 1.0
"""Length of the window for the current rate and latencies, in seconds."""

_LINE_EVERY = 5.0

_BAR = 30

EXIT_FAILED = 1

EXIT_USAGE = 2

EXIT_INTERRUPTED = 130

_REACH_SECONDS = 5.0

_WIDTH = 120
"""Columns of the report if the output is not a terminal."""


_LACKS_ECHO = "Unknown tool: 'echo'"

_CHOOSE = """\
The server has no tool echo. Choose one of its tools, for example:
  --tool search --args '{"text": "number {i}"}'"""


class Live:
    """A progress display that is fed with `LiveTick`s."""

    def __init__(self, console: Console, options: Options) -> None:
        self._console = console
        self._options = options
        self._ticks: deque[LiveTick] = deque()
        self._at = 0.0
        self._done = 0
        self._failed = 0
        self._replicas: Counter[str] = Counter()
        self._next_line = _LINE_EVERY
        self._live = RichLive(console=console, transient=True, auto_refresh=False) if console.is_terminal else None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the display inside the `with` block."""
        with self._live or nullcontext():
            yield

    def add(self, tick: LiveTick) -> None:
        """Add a tick and refresh the display."""
        self._ticks.append(tick)
        self._at = max(self._at, tick.at)
        while self._ticks[0].at < self._at - _WINDOW:
            self._ticks.popleft()
        self._done += len(tick.seconds) + tick.failed
        self._failed += tick.failed
        self._replicas += tick.replicas
        if self._live:
            self._live.update(self._view(), refresh=True)
        elif self._at >= self._next_line:
            self._next_line += _LINE_EVERY
            self._console.print(self._line(), highlight=False)

    def _now(self) -> tuple[float, str, str]:
        """Return the rate, p50 and p99 of the last second; p50 and p99 as text."""
        span = min(_WINDOW, self._at) or 1.0
        seconds = sorted(value for tick in self._ticks for value in tick.seconds)
        rate = (len(seconds) + sum(tick.failed for tick in self._ticks)) / span
        p50, p99 = (f"{percentile(seconds, p) * 1000:.1f} ms" if seconds else "–" for p in (50, 99))
        return rate, p50, p99

    def _line(self) -> str:
        rate, p50, p99 = self._now()
        return f"{self._at:5.0f} s  {self._done:,} done  {rate:,.0f}/s  p50 {p50}  p99 {p99}  {self._failed} failed"

    def _view(self) -> RenderableType:
        rate, p50, p99 = self._now()
        failed = f"[red]{self._failed:,} failed[/]" if self._failed else "0 failed"
        head = Text.from_markup(
            f"  [bold]{rate:,.0f}[/]/s   p50 [bold]{p50}[/]   p99 [bold]{p99}[/]   {self._done:,} done   {failed}"
        )
        table = Table.grid(padding=(0, 1))
        most = max(self._replicas.values(), default=1)
        for name, count in sorted(self._replicas.items()):
            bar = "█" * round(_BAR * count / most)
            table.add_row(f"  {escape(name)}", f"[cyan]{bar:<{_BAR}}[/]", f"{count:,}")
        progress = Table.grid(padding=(0, 1))
        progress.add_row("  ", ProgressBar(total=1, completed=self._share(), width=_BAR + 10), f"{self._at:.0f} s")
        return Group(Text(), head, Text(), table, Text(), progress)

    def _share(self) -> float:
        """Return the finished share of the run, from 0 to 1."""
        shares = [0.0]
        if self._options.seconds:
            shares.append(self._at / self._options.seconds)
        if self._options.requests and not self._options.what.get("session"):
            shares.append(self._done / self._options.requests)
        return min(1.0, max(shares))


def main(arguments: Sequence[str] | None = None, program: str = SCRIPT) -> int:
    """Run the load test with the command line of `program` and return the exit code."""
    options = read(arguments, program)
    command = shlex.join([*program.split(), *(sys.argv[1:] if arguments is None else arguments)])
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    try:
        addresses = _reach(options)
        console.print(f"🚀 {_announced(options)}", highlight=False, soft_wrap=True, markup=False)
        return _go(options, addresses, command, console)
    except ValueError as error:
        print(error, file=sys.stderr)
    except WorkerError as error:
        print(f"A process of the load generator failed:\n{error}", file=sys.stderr)
    except OSError as error:
        print(f"Can't write {error.filename}: {error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_USAGE


def _go(options: Options, addresses: list[str], command: str, console: Console) -> int:
    began = datetime.now(UTC).isoformat(timespec="seconds")
    knee = None
    if options.find_max:
        knee, outcome = _search(options, addresses, console)
    else:
        outcome = _load(options, addresses, console)
    if outcome is None:
        return EXIT_INTERRUPTED
    summary, measured = outcome
    broken = [broken_limit for threshold in options.thresholds if (broken_limit := threshold.broken(summary))]
    if knee and knee.best is None:
        broken = knee.stages[-1].broken  # the clients may have been too slow, which is no threshold of the options
    if measured.interrupted:
        console.print("\n[yellow]Ctrl-C: the report shows the requests until then.[/]", highlight=False)
    figures = output.as_json(summary, broken, command, began, knee)
    changes = compare(options.compare, figures) if options.compare else []
    if knee:
        output.show_knee(knee, console)
    output.show(summary, broken, console, changes)
    if not options.what and any(_LACKS_ECHO in failure.example for failure in summary.failures):
        console.print(f"\n{_CHOOSE}", highlight=False, markup=False, soft_wrap=True)
    _write(options, summary, measured, figures, console)
    if measured.interrupted or (knee and knee.interrupted):
        return EXIT_INTERRUPTED
    return EXIT_FAILED if summary.problems or broken else 0


def _load(options: Options, addresses: list[str], console: Console) -> tuple[Summary, Measured]:
    live = Live(console, options)
    with live.shown():
        measured = measure(options, addresses, live.add)
    return _summary(options, measured), measured


def _search(options: Options, addresses: list[str], console: Console) -> tuple[Knee, tuple[Summary, Measured] | None]:
    """Search for the knee; also return the outcome of the best rate, or of the last rate if none was good."""
    outcomes: dict[float, tuple[Summary, Measured]] = {}

    def attempt(rate: float) -> Summary:
        outcomes[rate] = _load(replace(options, ramp=constant(rate)), addresses, console)
        summary, measured = outcomes[rate]
        if measured.interrupted:
            raise KeyboardInterrupt
        return summary

    first = options.ramp.last if options.ramp else 0.0
    knee = find(first, options.thresholds, attempt, lambda stage: output.show_stage(stage, console))
    shown = knee.best or (knee.stages[-1] if knee.stages else None)
    return knee, outcomes[shown.rate] if shown else None


def _reach(options: Options) -> list[str]:
    """Return the server's addresses.

    Raises:
        ValueError: The URL is wrong or the server can't be reached; the message says what to do.
    """
    target = LoadTarget.of(options.url)
    # A wrong description of the requests must fail before the first request.
    workers.scenario_of(options.what, Writer(target, options.headers))
    try:
        return asyncio.run(target.resolved(_REACH_SECONDS))
    except OSError as error:
        why = error.strerror or str(error) or "no answer"
        raise ValueError(
            f"Can't connect to {options.url}: {why}. Start the server with `make up`, or give the right --url."
        ) from None


def _announced(options: Options) -> str:
    how = "1 client" if options.concurrent == 1 else f"{options.concurrent} clients"
    if options.find_max and options.ramp:
        return (
            f"Searching for the highest rate of {options.url}: from {options.ramp.last:g} requests/s, "
            f"{options.seconds:g} s per rate, {how}"
        )
    if options.ramp:
        rates = options.ramp
        rate = f"{rates.first:g} to {rates.last:g}" if rates.seconds else f"{rates.last:g}"
        how = f"{rate} requests/s from {how}"
    much = f"{options.requests:,} requests" if options.requests else f"requests for {options.seconds:g} s"
    return f"Sending {much} to {options.url}, {how}"


def _summary(options: Options, measured: Measured) -> Summary:
    ramp = options.ramp
    return summarize(
        measured.samples,
        elapsed=measured.elapsed,
        connects=measured.connects,
        expected_replicas=options.expect_replicas,
        offered=ramp.sent(measured.elapsed) / measured.elapsed if ramp and measured.elapsed else None,
        begun=measured.begun,
        generator=measured.generator,
    )


def _write(
    options: Options,
    summary: Summary,
    measured: Measured,
    figures: dict[str, Any],
    console: Console,
) -> None:
    if options.json:
        output.write_json(options.json, figures)
    if options.html:
        options.html.write_text(page.render(summary, figures))
    if options.csv:
        output.write_csv(options.csv, measured.samples)
    written = [str(file) for file in (options.json, options.csv, options.html) if file]
    if written:
        console.print(f"\n   Wrote {', '.join(written)}.", highlight=False, soft_wrap=True)
