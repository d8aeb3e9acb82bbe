"""Stdio: the client starts the server, and talks to it through pipes."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import fastmcp
from fastmcp.client.transports import StdioTransport
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from benchmarks.process import ROOT
from benchmarks.transport.by_hand import ByHand, over_pipes
from benchmarks.transport.place import MODES, Place
from benchmarks.wire import Family

_MODULE = "benchmarks.transport.stdio_server"
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}  # as the servers over HTTP have it
_PATIENCE = 5.0


class OverStdio(Place):
    """A process that a client starts, and that ends with it.

    Args:
        core: the CPU core that each process runs on.
        folder: for what the processes write to stderr.
        shared: whether all callers share one client and its process.
    """

    def __init__(self, core: int, folder: Path, *, shared: bool) -> None:
        self.shared = shared
        self._arguments = ["-m", _MODULE, str(core)]
        self._log = (folder / "stdio.log").open("a")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def client(self, family: Family) -> Client:
        """The official SDK's client; connecting it starts a process."""
        server = StdioServerParameters(command=sys.executable, args=self._arguments, env=_ENVIRONMENT, cwd=ROOT)
        return Client(stdio_client(server, errlog=self._log), mode=MODES[family])

    def fastmcp_client(self, family: Family) -> "fastmcp.Client[Any]":
        """FastMCP's client, the same."""
        transport = StdioTransport(
            sys.executable, self._arguments, _ENVIRONMENT, str(ROOT), keep_alive=False, log_file=self._log
        )
        return fastmcp.Client(transport, mode=MODES[family])

    def by_hand(self, family: Family) -> AbstractAsyncContextManager[ByHand]:
        """The pipes of a process of its own."""
        return self._pipes(family)

    @asynccontextmanager
    async def _pipes(self, family: Family) -> AsyncIterator[ByHand]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, *self._arguments, stdin=pipe, stdout=pipe, stderr=self._log, cwd=ROOT, env=_ENVIRONMENT
        )
        try:
            if process.stdout is None or process.stdin is None:
                raise RuntimeError("a process without pipes")
            yield await over_pipes(process.stdout, process.stdin, family)
            process.stdin.close()  # at which it ends
            await asyncio.wait_for(process.wait(), _PATIENCE)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def pids(self) -> list[int]:
        """This process's children that serve."""
        threads = Path("/proc/self/task").iterdir()
        children = [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]
        return [pid for pid in children if _MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
