"""What one exchange costs: CPU time, rate, latency and memory of `POST /mcp`, as multiples of a bare floor.

python -m benchmarks.exchange --rounds 5 --json figures.json
"""

import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from benchmarks import interruption
from benchmarks.cost_study import study_of
from benchmarks.machine import Machine, this_machine
from benchmarks.options import STDOUT, Options, parse
from benchmarks.plan import Plan
from benchmarks.process import ProcessError, stop_all
from benchmarks.progress import progress
from benchmarks.report import markdown, show
from benchmarks.results import SCHEMA, Figure, Results, ScenarioFigures
from benchmarks.rounds import measure_rounds, steps
from benchmarks.study.page import render
from benchmarks.whole import measure_memory, measure_start_up

EXIT_MISSED = 1
EXIT_FAILED = 3

_MEASURED = ("fastmcp", "mcp", "uvicorn", "uvloop", "httptools", "pydantic_core", "orjson")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parse(arguments)
    command = shlex.join(["python", "-m", "benchmarks.exchange", *(sys.argv[1:] if arguments is None else arguments)])
    machine = this_machine()
    os.sched_setaffinity(0, {machine.load_core})
    interruption.install()
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        results = _measure(options, machine, command, errors)
    except ProcessError as error:
        errors.print(f"✗ failed: {error}", markup=False)
        return EXIT_FAILED
    finally:
        with interruption.held():
            stop_all()
    _write(results, options, errors)
    if results.failures:
        return EXIT_FAILED
    return EXIT_MISSED if options.check and results.missed else 0


def _measure(options: Options, machine: Machine, command: str, console: Console) -> Results:
    began, at = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    scenarios: list[ScenarioFigures] = []
    process: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        plan = Plan(
            rounds=options.rounds,
            seconds=options.seconds,
            starts=options.starts,
            calls=options.calls,
            core=machine.server_core,
            log_level=options.log_level,
            folder=Path(folder),
        )
        total = steps(plan, options.scenarios) if options.scenarios else 0
        total += plan.starts * ("start-up" in options.whole) + ("memory" in options.whole)
        with progress(console, total) as step:
            # Alone on their core, so before the servers of the rounds are there.
            if "start-up" in options.whole:
                process += measure_start_up(plan, step)
            if "memory" in options.whole:
                process += measure_memory(plan, step)
            if options.scenarios:
                scenarios = measure_rounds(plan, options.scenarios, step)
    return Results(
        schema=SCHEMA,
        command=command,
        began=began,
        machine=machine,
        quick=options.quick,
        rounds=options.rounds,
        seconds=options.seconds,
        took=round(time.monotonic() - at, 1),
        versions={name: version(name) for name in _MEASURED},
        log_level=options.log_level,
        scenarios=scenarios,
        process=process,
    )


def _write(results: Results, options: Options, errors: Console) -> None:
    if options.json:
        _put(options.json, json.dumps(results.as_json(), indent=2, ensure_ascii=False) + "\n")
    if options.html:
        Path(options.html).write_text(render(study_of(results)))
    if options.markdown:
        _put(options.markdown, markdown(results))
    if not options.takes_stdout:
        show(results, Console(width=200))  # rather a line that the terminal breaks than figures cut off
        return
    for line in (*results.failures, *(results.missed if options.check else ())):
        errors.print(f"✗ {line}", markup=False)


def _put(file: str, text: str) -> None:
    if file == STDOUT:
        sys.stdout.write(text)
    else:
        Path(file).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
