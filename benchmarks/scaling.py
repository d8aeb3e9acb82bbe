"""Twice the replicas, twice the calls: 1, 2, 3 … of them, what their calls cost, and what ten million agents take.

python -m benchmarks.scaling --replicas 1,2,3,4
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from mcp_swarm.loadtest.arguments import duration

from benchmarks.load import LoadError
from benchmarks.process import ProcessError
from benchmarks.scale.agents import NAMES, assumption
from benchmarks.scale.callers import Calling
from benchmarks.scale.course import Course, Ladder
from benchmarks.scale.findings import findings
from benchmarks.scale.fleet import Fleet, serving
from benchmarks.scale.quota import Group, NoQuota, groups
from benchmarks.scale.room import Room, apart, shares, whole_cores
from benchmarks.scenarios import ECHO, SCENARIOS, Scenario
from benchmarks.study.command import Run, Script, main
from benchmarks.study.study import Findings
from benchmarks.study.turns import turns

_ECHO_2026 = next(scenario for scenario in SCENARIOS if scenario.name == "echo-2026")
_KINDS = (("2026-07-28", _ECHO_2026), ("handshake", ECHO))
_MOST = 16
_WARM_UP = 0.3
_SECONDS = (0.5, 1.5)
"""Of one measurement, unless said otherwise: with `--quick`, and without."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replicas",
        type=_sizes,
        default=[1, 2, 3, 4],
        metavar="1,2,…",
        help=f"how many, from 1 on, at most {_MOST} (default: 1,2,3,4)",
    )
    parser.add_argument(
        "--share",
        type=_percent,
        metavar="PERCENT",
        help="of a core for each replica, by the kernel's quota (default: a whole core where there are enough of them, "
        "else what fills four fifths of one together)",
    )
    parser.add_argument(
        "--connections", type=_connections, default=16, metavar="N", help="to each replica (default: %(default)s)"
    )
    quick, usual = _SECONDS
    parser.add_argument(
        "--seconds",
        type=duration,
        metavar="S",
        help=f"of each measurement (default: {usual:g}; with --quick {quick:g})",
    )
    parser.add_argument(
        "--assume",
        type=assumption,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"change a number of the model, any of {', '.join(NAMES)}; may be repeated",
    )


def _sizes(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    sizes = [int(part) for part in parts if part.isdecimal()]
    if len(sizes) != len(parts) or sizes != sorted(set(sizes)) or sizes[0] != 1 or sizes[-1] > _MOST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list like 1,2,3: it begins with 1, what others are compared with, rises, and ends with "
            f"{_MOST} at most"
        )
    return sizes


def _whole(text: str, what: str, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no {what} from {least} to {most}")
    return int(text)


def _percent(text: str) -> int:
    return _whole(text, "percentage", 1, 85)


def _connections(text: str) -> int:
    return _whole(text, "number of connections", 1, 256)


def _steps(given: argparse.Namespace, rounds: int) -> int:
    return 1 + rounds * len(_KINDS) * (len(given.replicas) + 1)


def _measure(run: Run) -> Findings:
    sizes: list[int] = run.given.replicas
    with ExitStack() as stack:
        room, bounds = _room(run, stack)
        ladders = [_ladder(name, scenario, sizes, room) for name, scenario in _KINDS]
        count = max([1, *(size for size in sizes if not room.reason(size))])
        run.step(f"start {count}")
        fleet = stack.enter_context(serving(count, room, bounds, run.folder, run.machine.server_core))
        _rounds(run, fleet, [course for ladder in ladders for course in (*ladder.steps, ladder.whole)])
    return findings(ladders, room, run.given.connections, dict(run.given.assume))


def _room(run: Run, stack: ExitStack) -> tuple[Room, list[Group]]:
    """Where replicas run, and what bounds each of them: nothing where there are cores enough, or no quota."""
    server, load, most = run.machine.server_core, run.machine.load_core, run.given.replicas[-1]
    cores = apart(server, load, sorted(os.sched_getaffinity(0)))
    whole = whole_cores(server, load, cores)
    if not (run.given.share or whole.reason(most)):
        return whole, []
    if server == load:
        return replace(whole, lack="which the load needs"), []
    try:
        bounds = stack.enter_context(groups(most))
    except NoQuota as error:
        return replace(whole, lack=str(error)), []
    return shares(load, cores, most, run.given.share), bounds


def _ladder(name: str, scenario: Scenario, sizes: Sequence[int], room: Room) -> Ladder:
    steps = [
        Course(
            f"{name}-{size}",
            "1 replica" if size == 1 else f"{size} replicas",
            scenario,
            size,
            skipped=room.reason(size),
        )
        for size in sizes
    ]
    return Ladder(scenario.title, steps, Course(f"{name}-core", scenario.title, scenario, 1, whole=True))


def _rounds(run: Run, fleet: Fleet, courses: Sequence[Course]) -> None:
    seconds = run.given.seconds or _SECONDS[0 if run.given.quick else 1]
    for number, course in turns([course for course in courses if not course.skipped], run.rounds):
        run.step(f"round {number} of {run.rounds}: {course.scenario.title}, {course.title}")
        if course.failure:
            continue
        calling = Calling(course.scenario, run.given.connections, min(_WARM_UP, seconds), seconds)
        try:
            course.rounds[number] = fleet.measure(calling, course.replicas, whole=course.whole, first=number)
        except (LoadError, ProcessError, OSError) as error:
            course.failure = str(error)


SCRIPT = Script(
    name="scaling",
    title="Scaling",
    claim="Twice the replicas, twice the calls.",
    description="Starts replicas that answer echo calls, and loads 1, 2, 3 … of them, in turns. Each has a core of its "
    "own where there are two for each replica, one of them for its load. Else the kernel's quota (cgroups, which need "
    "root as a rule) gives each the same share of a core. Where neither is possible, more than one replica are "
    "skipped. A model then says what ten million agents take, beside an estimate that was published elsewhere. "
    "About three minutes.",
    rounds=(1, 9),
    steps=_steps,
    measure=_measure,
    options=_options,
    pinned=False,  # the load's processes are, each to a core of its own
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
