"""Streamable HTTP, over TCP or over a Unix domain socket: this project's server, and FastMCP's own beside it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import fastmcp
import httpx2
from fastmcp.client.transports import StreamableHttpTransport
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.process import Process
from benchmarks.transport.by_hand import ByHand, over_http
from benchmarks.transport.place import MODES, Place
from benchmarks.transport.unix_process import UnixProcess
from benchmarks.wire import Family

_SETTINGS = {
    "MCP_COMPONENTS": "benchmarks.packs.echo",
    "REPLICA_NAME": "benchmark",
    # A connection is kept for as long as its client wants it.
    "MAX_REQUESTS_PER_CONNECTION": "0",
    "MAX_CONNECTION_AGE_SECONDS": "0",
}
_SOCKET = "mcp.sock"
_PATIENCE = 30.0


class OverHttp(Place):
    """A server that runs, and serves whoever comes.

    Args:
        process: the server, ready.
        started: seconds that it took until then.
        path: the file of its Unix socket; None: it listens on TCP.
    """

    def __init__(self, process: Process, started: float, path: Path | None) -> None:
        self.started = started
        self._process = process
        self._path = path
        self._url = f"http://127.0.0.1:{process.port}/mcp"

    def client(self, family: Family) -> Client:
        """The official SDK's client, with an HTTP client and connections of its own."""
        return Client(self._streams(), mode=MODES[family])

    def fastmcp_client(self, family: Family) -> "fastmcp.Client[Any]":
        """FastMCP's client, likewise."""
        return fastmcp.Client(
            StreamableHttpTransport(self._url, httpx_client_factory=self._http_client), mode=MODES[family]
        )

    def by_hand(self, family: Family) -> AbstractAsyncContextManager[ByHand]:
        """A connection."""
        return self._connection(family)

    def pids(self) -> list[int]:
        """The server's only process."""
        return [self._process.pid]

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        async with self._http_client() as http, streamable_http_client(self._url, http_client=http) as streams:
            yield streams

    def _http_client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
        **options: Any,
    ) -> httpx2.AsyncClient:
        # With a transport of its own it asks no proxy that the environment names.
        transport = httpx2.AsyncHTTPTransport(uds=str(self._path) if self._path else None)
        patience = timeout or httpx2.Timeout(_PATIENCE)
        return httpx2.AsyncClient(headers=headers, timeout=patience, auth=auth, transport=transport, **options)

    @asynccontextmanager
    async def _connection(self, family: Family) -> AsyncIterator[ByHand]:
        if self._path:
            reader, writer = await asyncio.open_unix_connection(self._path)
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._process.port)
        try:
            yield over_http(reader, writer, family)
        finally:
            writer.close()


@contextmanager
def over_tcp(core: int, folder: Path, module: str = "server") -> Iterator[OverHttp]:
    """A server on a port of 127.0.0.1, on a CPU core of its own.

    Raises:
        ProcessError: it doesn't start.
    """
    with Process(module, core=core, folder=folder, **_SETTINGS) as process:
        yield OverHttp(process, process.wait_ready(), None)


@contextmanager
def over_unix(core: int, folder: Path) -> Iterator[OverHttp]:
    """The server on a Unix socket, on a CPU core of its own.

    Raises:
        ProcessError: it doesn't start.
    """
    path = folder / _SOCKET
    with UnixProcess("server", path=path, core=core, folder=folder, **_SETTINGS) as process:
        yield OverHttp(process, process.wait_ready(), path)
