"""Clients that never close: servers with sessions, with limited sessions, and without sessions.

python -m benchmarks.session_flood --quick
"""

import asyncio
import sys
import time
from collections.abc import Mapping

from anyreplica.load.latency import percentile
from benchmarks.command import Run, Script, main
from benchmarks.interruption import run as run_load
from benchmarks.load import Load, LoadError
from benchmarks.process import Process, ProcessError
from benchmarks.rounds import Rounds, add_only
from benchmarks.scenarios import ECHO, Scenario
from benchmarks.session_flood.cases import CASES, STATELESS, Case
from benchmarks.session_flood.good_client import INITIALIZE, WELCOME, GoodClient
from benchmarks.study import Column, Row, Table

PER_SECOND = 20
"""Calls of the good client per second."""
WAITING = 16
"""Number of clients of the flood that wait for a reply at any time."""

_CONNECTIONS = 32
_LOOK = 4.0
"""Seconds between two looks at the server's memory."""
_REFUSED = "wrong reply: HTTP 503"
_HELLO = Scenario("initialize", "initialize", "echo", INITIALIZE, WELCOME)
_PATIENCE = 240.0
"""Time limit of a tenth of the long run in seconds."""

_FLOOD = [
    Column("admitted", "clients admitted"),
    Column("refused", "clients refused", "%"),
    Column("memory_before", "memory before", "MB"),
    Column("memory_after", "memory after", "MB"),
    Column("kept", "memory per client", "kB"),
    Column("p50", "good client: p50", "ms"),
    Column("p99", "p99", "ms"),
    Column("errors", "errors"),
]
_LONG = [
    Column("requests", "calls"),
    Column("memory_tenth", "memory after a tenth", "MB"),
    Column("memory_half", "after half", "MB"),
    Column("memory_end", "at the end", "MB"),
]


def _measure(run: Run) -> list[Table]:
    rounds = Rounds(run.given.only)
    rounds.measure(run, lambda case: _flood(run, case))
    return [
        Table("flood", "Clients that never close", _FLOOD, rounds.rows()),
        Table("long", "One stateless replica, many calls of echo", _LONG, [_long_run(run)]),
    ]


def _flood(run: Run, case: Case) -> Mapping[str, float]:
    """Flood one server and return the figures of one round.

    Raises:
        LoadError: A reply was neither right nor HTTP 503.
    """
    most = min(2_000.0, run.machine.memory_gb * 1e3 / 8)
    with case.serve(run.machine.server_core, run.folder) as process:
        process.wait_ready()
        return run_load(_flooded(process, case, run.seconds, most))


async def _flooded(process: Process, case: Case, seconds: float, most_mb: float) -> Mapping[str, float]:
    client = GoodClient(process.port, per_second=PER_SECOND)
    await client.enter(sessions=case.sessions)
    admitted = refused = 0
    async with Load(process.port, _HELLO, WAITING) as load:
        await load.run_replies(WAITING, within=_PATIENCE)  # A longer warm-up could reach the limit of sessions.
        before = process.rss_mb()
        calling = asyncio.ensure_future(client.call())
        end = time.perf_counter() + seconds
        try:
            # A server that has taken too much memory is not flooded any further.
            while time.perf_counter() < end and process.rss_mb() < most_mb:
                sample = await load.measure(min(_LOOK, seconds), process.cpu_seconds)
                if sample.errors and not sample.first_error.startswith(_REFUSED):
                    raise LoadError(sample.first_error)
                admitted += sample.requests - sample.errors
                refused += sample.errors
            after = process.rss_mb()
            took, errors = sorted(client.milliseconds), client.errors
        finally:
            client.stop()
            await calling
    return {
        "admitted": admitted,
        "refused": 100 * refused / (admitted + refused),
        "memory_before": before,
        "memory_after": after,
        "kept": 1e3 * max(0.0, after - before) / max(1, admitted),
        "errors": errors,
        **({"p50": percentile(took, 50), "p99": percentile(took, 99)} if took else {}),
    }


def _long_run(run: Run) -> Row:
    """Let a stateless replica answer many calls, and return its memory after a tenth, after half, and at the end."""
    title = "stateless, calls of echo"
    requests = 8_000 if run.quick else 1_000_000
    with STATELESS.serve(run.machine.server_core, run.folder) as process:
        try:
            process.wait_ready()
            memory = run_load(_tenths(run, process, requests))
        except (LoadError, ProcessError, OSError) as error:
            return Row("echo", title, failure=process.end or str(error))
    figures = {"requests": requests, "memory_tenth": memory[0], "memory_half": memory[4], "memory_end": memory[9]}
    return Row.of("echo", title, {name: [value] for name, value in figures.items()})


async def _tenths(run: Run, process: Process, requests: int) -> list[float]:
    """Return the resident memory after each tenth of the calls."""
    memory = []
    async with Load(process.port, ECHO, _CONNECTIONS) as load:
        for tenth in range(1, 11):
            run.step(f"{requests:,} calls: {tenth} of 10")
            await load.run_replies(requests // 10, within=_PATIENCE)
            memory.append(process.rss_mb())
            process.empty_log()
    return memory


SCRIPT = Script(
    name="session_flood",
    description="Let clients initialize as fast as the server answers, and never close, against this server with "
    "sessions (without limits, with the MCP SDK's limits, with lower limits) and without sessions. A good client calls "
    "echo at the same time. Then let a stateless replica answer many calls. The flood of a server ends early when "
    "the server has 2 GB, or an eighth of the machine's memory if that is less.",
    rounds=(1, 2),
    seconds=(2, 20),
    packages=("fastmcp", "mcp", "uvicorn", "uvloop", "httptools", "starlette", "pydantic", "orjson"),
    measure=_measure,
    options=lambda parser: add_only(parser, CASES),
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
