"""The number of instructions that a call needs, counted by Valgrind. One run is enough.

python -m benchmarks.instructions --check
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.command import Missing, Run, Script, main, need
from benchmarks.exchange.course import secured
from benchmarks.instructions import record
from benchmarks.process import ProcessError, Program, fixed_settings, pack_settings
from benchmarks.scenarios import FLOOR, PAGES, SCENARIOS, Scenario, choose
from benchmarks.study import Column, Row, Table

USUAL = "echo,echo-2026,awaiting,threaded,model,middleware,secured,fastmcp-path,page,replicas"
TARGETS = {
    "echo": 205_000,
    "echo-2026": 222_000,
    "awaiting": 255_000,
    "threaded": 310_000,
    "model": 265_000,
    "middleware": 285_000,
    "secured": 275_000,
    "fastmcp-path": 720_000,
}
"""Number of instructions per call that the scenarios must not exceed by more than the margin, on every machine."""
_MARGIN = 1.01
"""Two runs of one state may differ by 1 %."""
_LAYOUTS = 8
"""Maximum number of further layouts of the memory: of one state, a quarter of the layouts can be beyond the limit."""
_BLOCKS, _CALLS = 3, 320
"""Number of blocks that are counted, and the calls of each: a multiple of 64, which is the batch of the audit log."""

_FIGURES = [
    Column("calls", "instructions per call"),
    Column("ratio", "times the floor", "×"),
    Column("recorded", "recorded"),
    Column("most", "at most", limits="calls"),
    Column("target", "target + 1 %", limits="calls"),
]


_TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)


class Counting(Program):
    """A process that counts the instructions of a scenario."""

    def __init__(self, number: int, scenario: Scenario, library: Path, folder: Path, attempt: int = 0) -> None:
        self._file = folder / f"{scenario.name}-{attempt}.callgrind"
        options = ("--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self._file}")
        driver = (sys.executable, "-m", "benchmarks.instructions.driver", scenario.name, str(_BLOCKS), str(_CALLS))
        settings = fixed_settings(folder, number) | pack_settings(scenario.pack) | secured(scenario, folder)
        # The thread that watches the event loop would run more often per call than on a fast machine.
        settings["LOOP_STALL_SECONDS"] = "0"
        settings["PADDING"] = "x" * 1000 * attempt  # gives the objects of the process other addresses
        command = ("valgrind", *options, *driver, str(library))
        super().__init__(*command, port=number, core=None, folder=folder, **settings)

    def wait(self) -> list[float]:
        """Wait for the end of the count and return the instructions per call of each block.

        Raises:
            ProcessError: the process failed, or a reply was wrong.
        """
        if self._process.wait():
            raise ProcessError(self.end)
        # The first file is the one of the block that does not count.
        files = [self._file.with_name(f"{self._file.name}.{number}") for number in range(2, 2 + _BLOCKS)]
        return [int(totals[1]) / _CALLS for file in files if (totals := _TOTALS.search(file.read_text()))]


def _measure(run: Run) -> list[Table]:
    need("valgrind", "valgrind")
    need("gcc", "gcc libc6-dev")
    library = _library(run.folder)
    scenarios = [FLOOR, *run.given.only[0]]
    run.step.expect(len(scenarios))
    calls: dict[str, list[float]] = {}
    failures: dict[str, str] = {}
    cores = len(os.sched_getaffinity(0))
    waiting, running = list(enumerate(scenarios, 1)), list[tuple[Scenario, Counting]]()
    while waiting or running:
        while waiting and len(running) < cores:
            number, scenario = waiting.pop(0)
            running.append((scenario, Counting(number, scenario, library, run.folder)))
        scenario, counting = running.pop(0)
        run.step(scenario.title)
        try:
            calls[scenario.name] = counting.wait()
        except ProcessError as error:
            failures[scenario.name] = str(error)
        counting.stop()
    known = record.recorded()
    for scenario in scenarios:
        if scenario.name in calls:
            limit = _limit(scenario.name, {} if run.given.record else known)
            calls[scenario.name] = _least(run, scenario, calls[scenario.name], limit, library)
    if run.given.record and not failures:
        record.add(run.given.record, {name: round(statistics.median(blocks)) for name, blocks in calls.items()})
        known = record.recorded()
    elif not known:
        sys.stderr.write(f"The newest figures of {record.FILE.name} are of another Python: no comparison.\n")
    rows = [_row(each, calls, known, failures.get(each.name, "")) for each in scenarios]
    return [Table("calls", "Instructions per call", _FIGURES, rows)]


def _limit(name: str, known: dict[str, int]) -> float:
    """Return the maximum number of instructions of a scenario."""
    recorded = known[name] * (1 + record.MOST_GROWTH) if name in known else math.inf
    return min(recorded, TARGETS.get(name, math.inf) * _MARGIN)


def _least(run: Run, scenario: Scenario, blocks: list[float], limit: float, library: Path) -> list[float]:
    """Return the counts of a scenario, or smaller ones if they are beyond the limit and another process has them.

    Python looks up attributes in a cache by addresses. Where two of them collide, a call needs up to 2.5 % more
    instructions. The addresses depend on the length of the paths, for example. So only a figure that is too large with
    several layouts of the memory is too large.
    """
    cores = len(os.sched_getaffinity(0))
    for first in range(1, 1 + _LAYOUTS, cores):
        if statistics.median(blocks) <= limit:
            break
        run.step(f"{scenario.title}, again")
        with ExitStack() as stack:
            layouts = range(first, first + cores)
            running = [stack.enter_context(Counting(each, scenario, library, run.folder, each)) for each in layouts]
            blocks = min([blocks, *(each.wait() for each in running)], key=statistics.median)
    return blocks


def _row(scenario: Scenario, calls: dict[str, list[float]], known: dict[str, int], failure: str) -> Row:
    if failure:
        return Row(scenario.name, scenario.title, failure=failure)
    blocks, floor = calls[scenario.name], calls.get(FLOOR.name)
    figures: dict[str, list[float]] = {"calls": [round(block) for block in blocks]}
    if floor:
        figures["ratio"] = [statistics.median(blocks) / statistics.median(floor)]
    if scenario.name in known:
        figures["recorded"] = [known[scenario.name]]
        figures["most"] = [round(known[scenario.name] * (1 + record.MOST_GROWTH))]
    if scenario.name in TARGETS:
        figures["target"] = [round(TARGETS[scenario.name] * _MARGIN)]
    return Row.of(scenario.name, scenario.title, figures)


def _library(folder: Path) -> Path:
    library = folder / "counting.so"
    source = Path(__file__).with_name("counting.c")
    built = subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True, check=False
    )
    if built.returncode:
        raise Missing(f"gcc cannot build {source.name}; are Valgrind's headers installed? {built.stderr.strip()}")
    return library


def _options(parser: argparse.ArgumentParser) -> None:
    known = (*SCENARIOS, *PAGES)
    names = ", ".join(each.name for each in known)
    select = partial(choose, scenarios=known)
    text = f"only these; * stands for any characters (default: {USUAL}). Names: {names}"
    parser.add_argument("--only", type=select, default=select(USUAL), metavar="NAME,…", help=text)
    text = f"accept the counted figures: write them, with the reason, into {record.FILE.name}"
    parser.add_argument("--record", metavar="WHY", default="", help=text)


SCRIPT = Script(
    name="instructions",
    description="Count the instructions that a call costs the server, with Valgrind's callgrind. The count is nearly "
    "the same on every machine, also on a busy one: two runs differ by less than 1 percent. With --check, the "
    f"command fails if a figure is more than {record.MOST_GROWTH:.0%} larger than the newest one in "
    f"packages/anyreplica/benchmarks/instructions/{record.FILE.name}, or 1 percent larger than its target. "
    "If the growth has a reason, accept the new "
    "figures with --record.",
    rounds=(1, 1),
    seconds=None,
    packages=("fastmcp", "mcp", "uvicorn", "uvloop", "httptools", "pydantic_core", "orjson"),
    measure=_measure,
    options=_options,
    pinned=False,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
