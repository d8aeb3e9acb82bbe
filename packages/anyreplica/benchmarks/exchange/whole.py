"""The process as a whole: start-up time, memory, and growth of the memory."""

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.command import Run
from benchmarks.exchange.course import JUDGED, serve
from benchmarks.interruption import run
from benchmarks.load import Load, LoadError
from benchmarks.process import Process, ProcessError
from benchmarks.scenarios import ECHO
from benchmarks.study import Row

READY_SECONDS = 1.0
CHECK_SECONDS = 1.5
RESIDENT_MB = 100.0
GROWTH_MB = 2.0
"""The targets: maximum values."""

_PATIENCE = 900.0
_BARE = "from fastmcp import FastMCP; FastMCP('bare')"
_CHECKED = """
from fastmcp import FastMCP

mcp = FastMCP("checked")


@mcp.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
"""


def measure_start_up(measured: Run, starts: int) -> list[Row]:
    """Measure the time from the start of a process to the first 200 of `/readyz`, several times.

    The function also measures two other processes, in turns with the server: `anyreplica check` of a file with one
    tool, and a process that only creates a FastMCP object. No server that uses FastMCP starts faster than the second.

    Raises:
        CalledProcessError: one of the two other processes failed.
    """
    seconds: list[float] = []
    checks: list[float] = []
    bare: list[float] = []
    failure = ""
    checked = Path(measured.folder, "checked.py")
    checked.write_text(_CHECKED)
    for number in range(1, starts + 1):
        measured.step(f"start-up {number} of {starts}")
        core = measured.machine.server_core
        bare.append(_seconds_of(core, "-c", _BARE))
        checks.append(_seconds_of(core, "-m", "anyreplica", "check", str(checked)))
        with serve(ECHO, measured.machine.server_core, measured.folder) as process:
            try:
                seconds.append(process.wait_ready())
            except ProcessError as error:
                failure = str(error)
                break
    title = "ready after the start of the process, s"
    return [
        Row.of("start-up", title, {"figure": seconds, "target": [READY_SECONDS]}, failure),
        Row.of("start-up-check", "`anyreplica check` of one tool, s", {"figure": checks, "target": [CHECK_SECONDS]}),
        Row.of("start-up-bare", "for comparison: a process that only creates a bare FastMCP, s", {"figure": bare}),
    ]


def _seconds_of(core: int, *arguments: str) -> float:
    """Return how long a Python process with these arguments takes on one core, in seconds."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL) as process:
        os.sched_setaffinity(process.pid, {core})
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return time.perf_counter() - began


def measure_memory(measured: Run, calls: int) -> list[Row]:
    """Measure the resident memory when the server is ready, and after a number of echo calls."""
    measured.step(f"memory: {calls + calls // 10} calls")
    with serve(ECHO, measured.machine.server_core, measured.folder) as process:
        try:
            process.wait_ready()
            ready = process.rss_mb()
            warm, after = run(_rss_of_calls(process, calls))
        except (LoadError, ProcessError, OSError) as error:
            return [Row("memory", "resident memory, MB", failure=process.end or str(error))]
    figures = (
        ("memory-ready", "resident memory when ready, MB", ready, RESIDENT_MB),
        ("memory-after", f"resident memory after {calls + calls // 10:,} calls, MB", after, RESIDENT_MB),
        ("memory-growth", f"growth over the last {calls:,} calls, MB", after - warm, GROWTH_MB),
    )
    return [Row.of(name, title, {"figure": [value], "target": [most]}) for name, title, value, most in figures]


async def _rss_of_calls(process: Process, calls: int) -> tuple[float, float]:
    async with Load(process.port, ECHO, JUDGED) as load:
        await load.run_replies(calls // 10, within=_PATIENCE)
        warm = process.rss_mb()
        await load.run_replies(calls, within=_PATIENCE)
        return warm, process.rss_mb()
