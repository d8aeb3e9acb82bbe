"""Clients that never close, against servers with sessions, with bounded sessions, and without any.

python -m benchmarks.session_flood --quick
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

from mcp_swarm.loadtest.arguments import duration, positive

from benchmarks.flood import course
from benchmarks.flood.cases import NAMES, QUICK, STATELESS, Case, cases
from benchmarks.flood.course import Course
from benchmarks.flood.endurance import STEPS, endure
from benchmarks.flood.long_run import long_plot, long_table
from benchmarks.flood.memory import most_mb
from benchmarks.flood.sizes import FULL, SHORT, Sizes
from benchmarks.flood.tables import beside_table, flood_table, plots
from benchmarks.flood.words import meaning, sentence
from benchmarks.interruption import run
from benchmarks.load import LoadError
from benchmarks.process import ProcessError
from benchmarks.study.command import Run, Script, main
from benchmarks.study.study import Findings, Row
from benchmarks.study.turns import turns

_MEASURED = ("fastmcp", "mcp", "uvicorn", "uvloop", "httptools", "starlette", "pydantic", "orjson")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        type=_names,
        metavar="NAMES",
        help=f"servers, comma-separated: {', '.join(NAMES)} (default: all; with --quick {', '.join(QUICK)})",
    )
    parser.add_argument(
        "--seconds",
        type=duration,
        metavar="S",
        help=f"of each flood (default: {FULL.flood:g}; with --quick {SHORT.flood:g})",
    )
    parser.add_argument(
        "--requests",
        type=positive,
        metavar="N",
        help=f"of the long run (default: {FULL.requests:,}; with --quick {SHORT.requests:,})",
    )


def _names(text: str) -> list[str]:
    given = text.split(",")
    for name in given:
        if name not in NAMES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(NAMES)}")
    return given


def _sizes(given: argparse.Namespace) -> Sizes:
    usual = SHORT if given.quick else FULL
    return replace(usual, flood=given.seconds or usual.flood, requests=given.requests or usual.requests)


def _chosen(given: argparse.Namespace) -> Sequence[str]:
    return given.only or (QUICK if given.quick else NAMES)


def _steps(given: argparse.Namespace, rounds: int) -> int:
    return rounds * len(_chosen(given)) * course.STEPS + STEPS


def _measure(measured: Run) -> Findings:
    sizes = _sizes(measured.given)
    every = cases(sizes)
    chosen = [case for case in every if case.name in _chosen(measured.given)]
    courses: dict[str, list[Course]] = {case.name: [] for case in chosen}
    rows = {
        case.name: Row(case.name, case.title, skipped="only without --quick, or with --only")
        for case in every
        if case not in chosen
    }
    for _, case in turns(chosen, measured.rounds):
        if case.name not in rows:
            try:
                courses[case.name].append(_flood(measured, case, sizes))
            except (LoadError, ProcessError, OSError) as error:
                rows[case.name] = Row(case.name, case.title, failure=str(error))
    stateless = next(case for case in every if case.name == STATELESS)
    lasting = endure(measured, stateless, sizes)
    flood = flood_table(every, courses, rows, sizes.most)
    beside = beside_table(every, courses, rows)
    long = long_table(lasting, sizes.requests)
    return Findings(
        tables=[flood, long, beside],
        sentence=sentence(flood, long),
        meaning=meaning(every, flood, beside, long),
        plots=[*plots(every, courses), long_plot(lasting)],
        versions={name: version(name) for name in _MEASURED},
    )


def _flood(measured: Run, case: Case, sizes: Sizes) -> Course:
    """One server in one round.

    Raises:
        LoadError, ProcessError: it ended, or a reply was neither right nor a refusal.
    """
    with case.serve(measured) as process:
        process.wait_ready()
        most = most_mb(measured.machine.memory_gb)
        found = run(course.measure(case, process, sizes, most, measured.step))
    if found.wrong:
        raise LoadError(f"{found.wrong} of {found.wrong + found.let_in + found.refused} clients: {found.first_wrong}")
    return found


SCRIPT = Script(
    name="session_flood",
    title="Clients that never close",
    claim="Without sessions there is nothing that clients who never close can fill.",
    description="Clients initialize as fast as they are answered, and never close, against this server with sessions "
    "(without bounds, with the MCP SDK's, with tighter ones) and without; a good client calls echo beside them. Then "
    "a stateless replica answers many calls, beside its own minimal route and a bare floor. Takes about nine minutes; "
    "a server that reaches 2 GB, or an eighth of the memory, is flooded no further.",
    rounds=(1, 2),
    steps=_steps,
    measure=_measure,
    options=_options,
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
