"""The load test from its command line to its exit code."""

import asyncio
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from loadtest import plan
from loadtest.compare import compare
from loadtest.live import Live
from loadtest.message import Writer
from loadtest.options import Options, read
from loadtest.report import files, page, text
from loadtest.summary import Summary, summarize
from loadtest.target import Target
from loadtest.workers import Measured, WorkerError, measure

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130

_REACH_SECONDS = 5.0
_WIDTH = 120
"""Columns of the report in a pipe or a file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = read(arguments)
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    try:
        addresses = _reach(options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    began = datetime.now(UTC).isoformat(timespec="seconds")
    console.print(f"🚀 {_announced(options)}", highlight=False, soft_wrap=True, markup=False)
    try:
        with Live(console, options) as live:
            measured = measure(options, addresses, live.tell)
    except WorkerError as error:
        print(f"A generator failed:\n{error}", file=sys.stderr)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    summary = _summary(options, measured)
    broken = [said for threshold in options.thresholds if (said := threshold.broken(summary))]
    if measured.interrupted:
        console.print("\n[yellow]Ctrl-C: this is what ran until then.[/]", highlight=False)
    command = shlex.join(["test_swarm_load.py", *(sys.argv[1:] if arguments is None else arguments)])
    figures = files.as_json(summary, broken, command, began)
    changes = compare(options.compare, figures) if options.compare else []
    text.show(summary, broken, console, changes)
    try:
        _write(options, summary, measured, figures, console)
    except OSError as error:
        print(f"Can't write {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_REFUSED
    if measured.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if summary.problems or broken else 0


def _reach(options: Options) -> list[str]:
    """The server's addresses.

    Raises:
        ValueError: there is nothing to send to; the message says what to do.
    """
    target = Target.of(options.url)
    plan.scenario(options.what, Writer(target, options.headers))  # makes no sense? then before anything is sent
    try:
        return asyncio.run(target.resolved(_REACH_SECONDS))
    except OSError as error:
        why = error.strerror or str(error) or "no answer"
        raise ValueError(f"Can't reach {options.url}: {why}. Start the server with `make up`, or give --url.") from None


def _announced(options: Options) -> str:
    how = f"{options.concurrent} callers"
    if options.ramp:
        rates = options.ramp
        rate = f"{rates.first:g} to {rates.last:g}" if rates.seconds else f"{rates.last:g}"
        how = f"{rate} requests/s from {how}"
    much = f"{options.requests:,} calls" if options.requests else f"{options.seconds:g} s of calls"
    return f"{much} to {options.url}, {how}"


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
        console.print(f"\n   written to {', '.join(written)}", highlight=False, soft_wrap=True)
