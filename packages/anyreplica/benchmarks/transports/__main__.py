"""The cost of each transport: stdio, Streamable HTTP over TCP and over a Unix socket, and in memory.

python -m benchmarks.transports --rounds 5
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mcp import Client

from anyreplica.load.latency import percentile
from benchmarks import interruption
from benchmarks.command import Run, Script, main
from benchmarks.load import LoadError
from benchmarks.rounds import Rounds
from benchmarks.scenarios import MESSAGE
from benchmarks.study import Column, Table
from benchmarks.transports.places import Place, in_memory, over_stdio, over_tcp, over_unix

_PATIENCE = 120.0
_SLOWEST = 0.05
"""Allowed seconds per call."""
_WARM_UP = 10


@dataclass(frozen=True)
class Transport:
    """One way to connect a client to a server."""

    name: str
    title: str
    open: Callable[[int, Path], AbstractContextManager[Place]]
    """Function that starts the server on a CPU core, with a folder for files."""


TRANSPORTS = (
    Transport("memory", "in memory", in_memory),
    Transport("stdio-fresh", "stdio, one process per client", over_stdio),
    Transport("stdio-kept", "stdio, one shared process", partial(over_stdio, shared=True)),
    Transport(
        "tcp-stock", "Streamable HTTP, TCP, FastMCP's server", partial(over_tcp, module="benchmarks.peers.stock")
    ),
    Transport("tcp", "Streamable HTTP, TCP", over_tcp),
    Transport("unix", "Streamable HTTP, Unix socket", over_unix),
)


def _measure(run: Run) -> list[Table]:
    """Measure each transport in turn, with a server that starts for the measurement."""
    calls, clients = (20, 2) if run.quick else (50, 5)

    def measure(transport: Transport) -> Mapping[str, float]:
        with transport.open(run.machine.server_core, run.folder) as place:
            return interruption.run(_limited(place, calls, clients))

    rounds = Rounds(TRANSPORTS)
    rounds.measure(run, measure)
    return [
        Table("transports", f"One client, and {clients} clients at the same time", _columns(clients), rounds.rows())
    ]


def _columns(clients: int) -> list[Column]:
    return [
        Column("start", "start to first reply", "ms"),
        Column("connect", "connect", "ms"),
        Column("p50", "call p50", "ms"),
        Column("p99", "p99", "ms"),
        Column("mean_n", f"mean, {clients} clients", "ms"),
        Column("cpu", "server CPU per call", "µs"),
        Column("rss_n", f"memory, {clients} clients", "MB"),
    ]


async def _limited(place: Place, calls: int, clients: int) -> dict[str, float]:
    """Return the figures of one round: times in ms, memory in MB, CPU time per call in µs.

    Raises:
        LoadError: A reply was wrong, a client failed, or the time limit was exceeded.
    """
    seconds = _PATIENCE + _SLOWEST * calls * (clients + 1)
    try:
        async with asyncio.timeout(seconds):
            return await _figures(place, calls, clients)
    except TimeoutError:
        raise LoadError(f"not done within {seconds:,.0f} s") from None
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise LoadError(f"{type(error).__name__}: {error}".partition("\n")[0]) from None


async def _figures(place: Place, calls: int, clients: int) -> dict[str, float]:
    """Measure one client from the start of the server, and then all clients at the same time."""
    figures: dict[str, float] = {}
    connects: list[float] = []
    connected: list[Client] = []
    async with AsyncExitStack() as stack:
        while len(connected) < (1 if place.shared else clients):
            began = time.perf_counter()
            client = await stack.enter_async_context(place.client())
            connects.append(1000 * (time.perf_counter() - began))
            await _call(client)
            if not connected:
                figures["start"] = 1000 * (place.started + time.perf_counter() - began)
                await _timed(client, _WARM_UP)
                cpu = place.cpu_seconds()
                took = sorted(await _timed(client, calls))
                figures |= {"p50": percentile(took, 50), "p99": percentile(took, 99)}
                if place.pids():
                    figures["cpu"] = 1e6 * (place.cpu_seconds() - cpu) / calls
            connected.append(client)
        if not place.shared:
            figures["connect"] = statistics.median(connects)
        callers = connected * clients if place.shared else connected
        together = await asyncio.gather(*(_timed(client, calls) for client in callers))
        figures["mean_n"] = statistics.fmean(each for times in together for each in times)
        return figures | ({"rss_n": place.rss_mb()} if place.pids() else {})


async def _call(client: Client) -> None:
    result = await client.call_tool("echo", {"message": MESSAGE})
    if result.is_error or result.structured_content != {"result": MESSAGE}:
        raise LoadError(f"wrong reply: {str(result)[:200]}")


async def _timed(client: Client, count: int) -> list[float]:
    """Make calls one after the other and return the milliseconds of each call."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        await _call(client)
        took.append(1000 * (time.perf_counter() - began))
    return took


SCRIPT = Script(
    name="transports",
    description="Call an echo over stdio (one process per client, and one shared process), over Streamable HTTP (TCP "
    "and a Unix socket) and in memory, in the handshake protocol, with the official SDK's client. Measure the time "
    "from the start to the first reply, the time to connect, and the time of a call with one client and with several "
    "clients. Also measure the CPU time and the memory of the server. Every reply is checked.",
    rounds=(1, 5),
    seconds=(1, 1),
    packages=("mcp", "fastmcp", "httpx2", "uvicorn", "uvloop"),
    measure=_measure,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
