"""In memory: client and server in one process."""

from typing import Any

import fastmcp
from mcp import Client
from mcp_swarm.mcp._sdk import low_level

from benchmarks.transport.echo import server
from benchmarks.transport.place import MODES, Place
from benchmarks.wire import Family


class InMemory(Place):
    """A FastMCP server among this process's objects."""

    def __init__(self) -> None:
        self._server = server()

    def client(self, family: Family) -> Client:
        """The official SDK's client, which takes the SDK's server below FastMCP's."""
        return Client(low_level(self._server), mode=MODES[family])

    def fastmcp_client(self, family: Family) -> "fastmcp.Client[Any]":
        """FastMCP's client."""
        return fastmcp.Client(self._server, mode=MODES[family])

    def by_hand(self, family: Family) -> None:
        """Nothing is written."""
