"""The process as a whole: how soon it is ready, what memory it takes, and how that grows."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.interruption import run
from benchmarks.load import Load, LoadError
from benchmarks.plan import Plan
from benchmarks.process import Process, ProcessError
from benchmarks.results import Figure
from benchmarks.scenarios import ECHO

READY_SECONDS = 1.0
RESIDENT_MB = 100.0
GROWTH_MB = 2.0
"""The targets: at most so much."""

_CONNECTIONS = 32
_PATIENCE = 900.0
_BARE = "from fastmcp import FastMCP; FastMCP('bare')"


def measure_start_up(plan: Plan, step: Callable[[str], None]) -> list[Figure]:
    """Start a server several times; the time from the start of the process to the first 200 of `/readyz`.

    In turns with the import of FastMCP alone, which no server built on it can be ready before: the seconds are the
    machine's, what is ours is the difference.
    """
    seconds: list[float] = []
    bare: list[float] = []
    failure = ""
    for number in range(1, plan.starts + 1):
        step(f"start-up {number} of {plan.starts}")
        bare.append(_seconds_of_bare(plan.core))
        with plan.serve(ECHO.pack) as process:
            try:
                seconds.append(process.wait_ready())
            except ProcessError as error:
                failure = str(error)
                break
    title = "ready after the start of the process"
    beside = "beside it: a process that only makes a bare FastMCP"
    return [
        Figure.of("start-up", title, "s", [] if failure else seconds, READY_SECONDS, failure),
        Figure.of("start-up-bare", beside, "s", bare, None, ""),
    ]


def _seconds_of_bare(core: int) -> float:
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", _BARE]) as process:
        os.sched_setaffinity(process.pid, {core})
    return time.perf_counter() - began


def measure_memory(plan: Plan, step: Callable[[str], None]) -> list[Figure]:
    """Serve many echo calls; the resident memory before, in between and after."""
    step(f"memory: {plan.calls + plan.calls // 10} calls")
    with plan.serve(ECHO.pack) as process:
        try:
            process.wait_ready()
            ready = process.rss_mb()
            warm, after = run(_rss_of_calls(plan, process))
        except (LoadError, ProcessError, OSError) as error:
            return [Figure.of("memory", "resident memory", "MB", [], RESIDENT_MB, process.end or str(error))]
    figures = (
        ("memory-ready", "resident memory when ready", ready, RESIDENT_MB),
        ("memory-after", f"resident memory after {plan.calls + plan.calls // 10:,} calls", after, RESIDENT_MB),
        ("memory-growth", f"growth of it over the last {plan.calls:,} calls", after - warm, GROWTH_MB),
    )
    return [Figure.of(name, title, "MB", [value], target, "") for name, title, value, target in figures]


async def _rss_of_calls(plan: Plan, process: Process) -> tuple[float, float]:
    async with Load(process.port, ECHO, _CONNECTIONS) as load:
        await load.run_replies(plan.calls // 10, within=_PATIENCE)
        warm = process.rss_mb()
        await load.run_replies(plan.calls, within=_PATIENCE)
        return warm, process.rss_mb()
