"""The load test beside wrk, on the same server: do their figures agree, and what can each client send at most?

python -m benchmarks.generators
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx
import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.machine import Machine, this_machine
from benchmarks.process import ROOT, Process

EXIT_MISSED = 1
EXIT_REFUSED = 2

_AGREE = 0.10
"""Most that the load test's figures may be off wrk's."""

_FLOOR_RATE = 8000.0
"""Requests per second and core that the load test's client must manage, each reply checked."""

_BODY = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "hi"}}}
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True)
class Figures:
    """What a generator measured."""

    rate: float
    """Successful requests per second."""
    p50: float
    """Milliseconds."""
    p99: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = _parser().parse_args(arguments)
    if shutil.which("wrk") is None:
        Console(stderr=True).print("wrk is not installed: apt-get install wrk")
        return EXIT_REFUSED
    machine = this_machine()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(str(machine))
    agreed = _agreement(machine, given.rounds, given.seconds, given.connections, console)
    rates = _rates(machine, given.seconds, given.connections, console)
    if given.check and not (agreed and rates["loadtest"] >= _FLOOR_RATE):
        return EXIT_MISSED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generators",
        description="Load one replica on a core of its own with wrk and with test_swarm_load.py in turns, and compare "
        "what they say; then let HTTP clients send as much as they can to a server that does nothing.",
        epilog=f"Exit codes: 0 measured; 1 the figures differ by more than {_AGREE:.0%}, or the load test's client "
        f"sends less than {_FLOOR_RATE:,.0f} requests/s, with --check; 2 wrong arguments, or no wrk.",
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="of each run (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=20, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    return parser


def _agreement(machine: Machine, rounds: int, seconds: float, connections: int, console: Console) -> bool:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        server = Process(
            "server",
            core=machine.server_core,
            folder=folder,
            MCP_COMPONENTS="benchmarks.packs.echo",
            REPLICA_NAME="benchmark",
        )
        with server:
            server.wait_ready()
            url = f"http://127.0.0.1:{server.port}/mcp"
            runs: dict[str, list[Figures]] = {"wrk": [], "loadtest": []}
            for _ in range(rounds):
                runs["wrk"].append(_wrk(machine, url, seconds, connections, folder))
                runs["loadtest"].append(_loadtest(machine, url, seconds, connections, folder))
    table = Table("generator", "requests/s", "p50 ms", "p99 ms", box=None, title="The same server")
    middles = {
        name: Figures(*(median(getattr(run, field) for run in its) for field in ("rate", "p50", "p99")))
        for name, its in runs.items()
    }
    for name, figures in middles.items():
        table.add_row(name, f"{figures.rate:,.0f}", f"{figures.p50:.2f}", f"{figures.p99:.2f}")
    console.print(table)
    ours, theirs = middles["loadtest"], middles["wrk"]
    off = {field: getattr(ours, field) / getattr(theirs, field) - 1 for field in ("rate", "p50")}
    agreed = all(abs(value) <= _AGREE for value in off.values())
    words = ", ".join(f"{field} {value:+.1%}" for field, value in off.items())
    console.print(f"{'✓' if agreed else '✗'} the load test's figures are off wrk's by {words}\n")
    return agreed


def _wrk(machine: Machine, url: str, seconds: float, connections: int, folder: Path) -> Figures:
    script = folder / "post.lua"
    headers = "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in _HEADERS.items())
    script.write_text(f"wrk.method = 'POST'\nwrk.body = '{json.dumps(_BODY)}'\n{headers}")
    options = ["-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", str(script)]
    said = subprocess.run(
        ["taskset", "-c", str(machine.load_core), "wrk", *options, url], capture_output=True, text=True, check=True
    ).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    times = {
        percent: float(value) * _MS[unit] for percent, value, unit in re.findall(r"(50|99)%\s+([\d.]+)(\w+)", said)
    }
    if rate is None or "Non-2xx" in said:
        raise RuntimeError(f"wrk says:\n{said}")
    return Figures(float(rate[1]), times["50"], times["99"])


def _loadtest(machine: Machine, url: str, seconds: float, connections: int, folder: Path) -> Figures:
    file = folder / "run.json"
    load = ["--url", url, "--duration", f"{seconds:g}s", "--concurrent", str(connections)]
    result = ["--expect-replicas", "1", "--json", str(file)]
    done = subprocess.run(
        ["taskset", "-c", str(machine.load_core), sys.executable, "test_swarm_load.py", *load, *result],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the load test says:\n{done.stdout}{done.stderr}")
    run = json.loads(file.read_text())
    return Figures(run["throughput"], run["latency"]["p50"], run["latency"]["p99"])


def _rates(machine: Machine, seconds: float, connections: int, console: Console) -> dict[str, float]:
    """What each client sends in a process of its own, on one core, to the floor."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        with Process("benchmarks.floor", core=machine.server_core, folder=folder) as server:
            server.wait_ready()
            url = f"http://127.0.0.1:{server.port}/mcp"
            rates = {
                "wrk": _wrk(machine, url, seconds, connections, folder).rate,
                "loadtest": _loadtest(machine, url, seconds, connections, folder).rate,
                "httpx": _pinned(machine, lambda: asyncio.run(_httpx(url, seconds, connections))),
            }
    table = Table("client, on one core", "requests/s", box=None, title="A server that does nothing")
    for client, rate in rates.items():
        table.add_row(client, f"{rate:,.0f}")
    console.print(table)
    return rates


def _pinned(machine: Machine, measure: Callable[[], float]) -> float:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {machine.load_core})
    try:
        return measure()
    finally:
        os.sched_setaffinity(0, before)


async def _httpx(url: str, seconds: float, connections: int) -> float:
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=connections), timeout=30) as client:

        async def call() -> None:
            reply = await client.post(url, content=orjson.dumps(_BODY), headers=_HEADERS)
            if orjson.loads(reply.content)["result"]["content"][0]["text"] != "hi":
                raise RuntimeError(reply.text)

        return await _as_fast_as_it_goes(call, seconds, connections)


async def _as_fast_as_it_goes(call: Callable[[], Awaitable[None]], seconds: float, callers: int) -> float:
    done = 0
    began = time.perf_counter()

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            await call()
            done += 1

    await asyncio.gather(*(caller() for _ in range(callers)))
    return done / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
