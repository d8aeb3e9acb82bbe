"""The load test program: it reads the command line, generates the load, prints the report, returns the exit code."""

import asyncio
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from anyreplica.load import plan
from anyreplica.load.compare import compare
from anyreplica.load.knee import Knee, find
from anyreplica.load.live import Live
from anyreplica.load.message import Writer
from anyreplica.load.options import SCRIPT, Options, read
from anyreplica.load.pace import constant
from anyreplica.load.report import files, page, search, text
from anyreplica.load.summary import Summary, summarize
from anyreplica.load.target import LoadTarget
from anyreplica.load.workers import Measured, WorkerError, measure

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_REACH_SECONDS = 5.0
_WIDTH = 120
"""Columns of the report if the output is not a terminal."""


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
    broken = [said for threshold in options.thresholds if (said := threshold.broken(summary))]
    if measured.interrupted:
        console.print("\n[yellow]Ctrl-C: the report shows the requests until then.[/]", highlight=False)
    figures = files.as_json(summary, broken, command, began, knee)
    changes = compare(options.compare, figures) if options.compare else []
    if knee:
        search.show_knee(knee, console)
    text.show(summary, broken, console, changes)
    _write(options, summary, measured, figures, console)
    if measured.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if summary.problems or broken else 0


def _load(options: Options, addresses: list[str], console: Console) -> tuple[Summary, Measured]:
    with Live(console, options) as live:
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
    knee = find(first, options.thresholds, attempt, lambda stage: search.show_stage(stage, console))
    shown = knee.best or (knee.stages[-1] if knee.stages else None)
    return knee, outcomes[shown.rate] if shown else None


def _reach(options: Options) -> list[str]:
    """Return the server's addresses.

    Raises:
        ValueError: The URL is wrong or the server can't be reached; the message says what to do.
    """
    target = LoadTarget.of(options.url)
    # A wrong description of the requests must fail before the first request.
    plan.scenario(options.what, Writer(target, options.headers))
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
        files.write_json(options.json, figures)
    if options.html:
        options.html.write_text(page.render(summary, figures))
    if options.csv:
        files.write_csv(options.csv, measured.samples)
    written = [str(file) for file in (options.json, options.csv, options.html) if file]
    if written:
        console.print(f"\n   Wrote {', '.join(written)}.", highlight=False, soft_wrap=True)
