#!/usr/bin/env python3
"""Load a running deployment, and say whether every call succeeded and every replica took part.

python test_swarm_load.py --requests 100 --concurrent 20 --expect-replicas 3
"""

import argparse
import asyncio
import json
import math
import os
import sys
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtest import generator, report
from loadtest.call import Outcome
from loadtest.summary import Summary, summarize


def main() -> int:
    """Run the command line; returns the exit code."""
    options = _options()
    console = Console()
    problem = _unreachable(options.url)
    if problem:
        print(
            f"Can't reach {options.url}: {problem}. Start the server with `make up`, or give --url.",
            file=sys.stderr,
        )
        return 2
    console.print(f"🚀 {options.requests} calls to {options.url}, {options.concurrent} in flight", highlight=False)
    try:
        summary = _run(options, console)
    except KeyboardInterrupt:
        return 130
    report.show(summary, console)
    if options.json:
        options.json.write_text(json.dumps(summary.as_json(), indent=2) + "\n")
        console.print(f"\n   written to {options.json}", highlight=False)
    return 1 if summary.problems else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Keep a number of echo calls in flight against an MCP server, count as a success only what is one, "
        "and tell how the replicas shared the work.",
        epilog="Exit codes: 0 every call succeeded and all expected replicas took part; 1 not so; "
        "2 wrong arguments or no server at the URL.",
    )
    parser.add_argument(
        "--url", default="http://localhost:8150/mcp", help="the server's endpoint (default: %(default)s)"
    )
    parser.add_argument(
        "--requests", type=_positive, default=100, metavar="N", help="calls in all (default: %(default)s)"
    )
    parser.add_argument(
        "--concurrent", type=_positive, default=20, metavar="N", help="calls in flight (default: %(default)s)"
    )
    parser.add_argument(
        "--expect-replicas",
        type=_positive,
        default=3,
        metavar="N",
        help="replicas that must take part (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=30, metavar="S", help="seconds for one call (default: %(default)s)"
    )
    parser.add_argument("--token", default=os.environ.get("MCP_TOKEN"), help="bearer token (default: $MCP_TOKEN)")
    parser.add_argument("--json", type=_file, metavar="FILE", help="write the figures to FILE, too")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _file(text: str) -> Path:
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(Path(text).parent)!r}")
    return Path(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def _unreachable(url: str) -> str:
    """Why nothing can be sent to the URL; empty if something can."""
    try:
        httpx.get(url, timeout=5)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return str(error) or type(error).__name__
    return ""


def _run(options: argparse.Namespace, console: Console) -> Summary:
    outcomes: list[Outcome] = []
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("calls", total=options.requests, failed=0)

        def done(outcome: Outcome) -> None:
            outcomes.append(outcome)
            progress.update(task, advance=1, failed=progress.tasks[0].fields["failed"] + bool(outcome.error))

        seconds = asyncio.run(
            generator.run(
                options.url,
                requests=options.requests,
                concurrent=options.concurrent,
                token=options.token,
                patience=options.timeout,
                done=done,
            )
        )
    return summarize(outcomes, seconds, options.expect_replicas)


if __name__ == "__main__":
    sys.exit(main())
