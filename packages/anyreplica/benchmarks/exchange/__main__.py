"""The cost of `POST /mcp`: CPU time, rate, latency and memory, compared with the floor (`benchmarks.floor`).

python -m benchmarks.exchange --rounds 5 --json figures.json
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.command import Run, Script, main
from benchmarks.exchange.course import JUDGED, LOADS, Course, serve
from benchmarks.exchange.whole import measure_memory, measure_start_up
from benchmarks.process import ProcessError
from benchmarks.scenarios import FLOOR, SCENARIOS, WHOLE, Scenario, choose
from benchmarks.study import Column, Row, Table

_FIGURES = [
    Column("cpu", "CPU per request", "µs"),
    Column("ratio", "times the floor", "×"),
    Column("target", "at most", "×", limits="ratio"),
    Column("rate", "requests", "/s"),
    Column("p50", "p50", "ms"),
    Column("p99", "p99", "ms"),
]
_PROCESS = [Column("figure", "measured"), Column("target", "at most", limits="figure")]


def _measure(run: Run) -> list[Table]:
    scenarios, whole = run.given.only
    process: list[Row] = []
    tables = []
    # The start-up is measured before the servers of the rounds share the core.
    if "start-up" in whole:
        process += measure_start_up(run, starts=1 if run.quick else 5)
    if "memory" in whole:
        process += measure_memory(run, calls=5_000 if run.quick else 200_000)
    if scenarios:
        courses = _rounds(run, scenarios)
        many = [course.row(JUDGED) for course in courses]
        alone = [course.row(1) for course in courses]
        tables.append(Table("cost", f"{JUDGED} requests in flight", _FIGURES, many))
        without_target = [column for column in _FIGURES if not column.limits]
        tables.append(Table("alone", "One request in flight", without_target, alone))
    if process:
        tables.append(Table("process", "The process as a whole", _PROCESS, process))
    return tables


def _rounds(run: Run, scenarios: Sequence[Scenario]) -> list[Course]:
    """Measure the scenarios in turns, each in a process that lives through all rounds.

    The floor is measured immediately before each scenario: the speed of a shared machine changes by half within
    seconds, and the study compares the ratios to the floor.

    Raises:
        ProcessError: The floor failed, so that no comparison is possible.
    """
    run.step.expect((1 + len(scenarios)) + len(scenarios) * run.rounds * len(LOADS))
    with ExitStack() as stack:
        courses = []
        for scenario in (FLOOR, *scenarios):
            run.step(f"start: {scenario.name}")
            process = stack.enter_context(serve(scenario, run.machine.server_core, run.folder))
            course = Course(scenario, process, run.seconds)
            course.begin()
            courses.append(course)
        floor = courses[0]
        for number in range(1, run.rounds + 1):
            for course in courses[1:]:
                for load in LOADS:
                    run.step(f"round {number} of {run.rounds}: {course.scenario.name}, {load} in flight")
                    floor.measure(load)
                    if floor.failure:
                        raise ProcessError(f"the floor: {floor.failure}")
                    course.measure(load, floor.last[load])
    return courses


def _options(parser: argparse.ArgumentParser) -> None:
    names = ", ".join([*(scenario.name for scenario in SCENARIOS), *WHOLE])
    parser.add_argument(
        "--only",
        type=choose,
        default=choose("*"),
        metavar="NAME,…",
        help=f"only these; * stands for any characters, as in 'echo*'. Names: {names}",
    )


SCRIPT = Script(
    name="exchange",
    description="Measure the cost of POST /mcp: CPU time of the server per request, as a multiple of the floor's (a "
    "bare ASGI app with orjson under the same uvicorn), rate and latency with 32 requests and with 1 request in "
    "flight, memory, and start-up time. Each server runs on one core with its access log on; the load runs on another "
    "core. Every reply is checked.",
    rounds=(1, 5),
    seconds=(0.3, 2.0),
    packages=("fastmcp", "mcp", "uvicorn", "uvloop", "httptools", "pydantic_core", "orjson"),
    measure=_measure,
    options=_options,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
