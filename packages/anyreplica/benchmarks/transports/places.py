"""Servers on each transport, and clients that connect to them."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from fastmcp import FastMCP
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from anyreplica.mcp.compat.sdk import low_level
from benchmarks.packs.echo.tools import add, echo
from benchmarks.process import PACKAGE, ROOT, Process, answers, children_of, cpu_seconds_of, replica

_MODE = "legacy"
"""The client's mode for the handshake protocol."""
_STDIO_MODULE = "benchmarks.transports.stdio_server"
_PATIENCE = 30.0


def fastmcp_server() -> FastMCP:
    """Return FastMCP's own server with the tools of `benchmarks.packs.echo`."""
    return FastMCP("benchmark", tools=[echo, add])


@dataclass(frozen=True)
class Place:
    """A server, or a program that starts a server for each client."""

    client: Callable[[], Client]
    """Function that returns a client of the official SDK that is not connected yet."""
    pids: Callable[[], Sequence[int]]
    """Function that returns the ids of the server processes."""
    started: float = 0.0
    """Seconds until the server was ready, before the first client connected."""
    shared: bool = False
    """True if all callers share one client and its server process."""

    def cpu_seconds(self) -> float:
        """Return the user and system time of the server processes."""
        return sum(cpu_seconds_of(pid) for pid in self.pids())

    def rss_mb(self) -> float:
        """Return the resident memory of the server processes in MB (10⁶ bytes), with shared pages counted once."""
        found = [_resident(pid) for pid in self.pids()]
        return (sum(private for private, _ in found) + max((shared for _, shared in found), default=0)) * 1024 / 1e6


@contextmanager
def in_memory(_core: int, _folder: Path) -> Iterator[Place]:
    """Create a FastMCP server in this process. Clients connect to the SDK's server inside FastMCP's."""
    server = low_level(fastmcp_server())
    yield Place(lambda: Client(server, mode=_MODE), lambda: ())


@contextmanager
def over_stdio(core: int, folder: Path, *, shared: bool = False) -> Iterator[Place]:
    """Let each client start a server process when it connects."""
    # All servers hash strings in the same way.
    environment = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(PACKAGE)}
    arguments = ["-m", _STDIO_MODULE, str(core)]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=ROOT)

    def pids() -> list[int]:
        children = children_of(os.getpid())
        return [pid for pid in children if _STDIO_MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]

    with (folder / "stdio.log").open("a") as log:
        yield Place(lambda: Client(stdio_client(server, errlog=log), mode=_MODE), pids, shared=shared)


@contextmanager
def over_tcp(core: int, folder: Path, module: str = "server") -> Iterator[Place]:
    """Start a server on a port of 127.0.0.1."""
    with replica("echo", core, folder, module) as process:
        yield _over_http(process, None)


@contextmanager
def over_unix(core: int, folder: Path) -> Iterator[Place]:
    """Start the server on a Unix socket."""
    path = folder / "mcp.sock"
    settings = {"MCP_COMPONENTS": "benchmarks.packs.echo", "REPLICA_NAME": "benchmark", "MCP_UDS": str(path)}
    with _UnixProcess("server", core=core, folder=folder, **settings) as process:
        process.path = str(path)
        yield _over_http(process, path)


class _UnixProcess(Process):
    """This project's server on a Unix socket."""

    path = ""

    def is_ready(self) -> bool:
        """Return True if `/readyz` answers 200."""
        return answers(self.path)


def _over_http(process: Process, path: Path | None) -> Place:
    """Wait until a server is ready. Each client gets an HTTP client and connections of its own."""

    @asynccontextmanager
    async def streams() -> AsyncIterator[Any]:
        # A client with its own transport uses no proxy of the environment.
        transport = httpx2.AsyncHTTPTransport(uds=str(path) if path else None)
        async with (
            httpx2.AsyncClient(timeout=httpx2.Timeout(_PATIENCE), transport=transport) as http,
            streamable_http_client(f"http://127.0.0.1:{process.port}/mcp", http_client=http) as found,
        ):
            yield found

    return Place(lambda: Client(streams(), mode=_MODE), lambda: [process.pid], process.wait_ready())


def _resident(pid: int) -> tuple[int, int]:
    """Return the resident memory of a process in KiB: its private memory, and the memory that it shares."""
    kibibytes = {"Private": 0, "Shared": 0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, value = line.partition(":")
        kind, _, state = name.partition("_")
        if kind in kibibytes and state in ("Clean", "Dirty"):
            kibibytes[kind] += int(value.split()[0])
    return kibibytes["Private"], kibibytes["Shared"]
