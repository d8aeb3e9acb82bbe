"""The HTTP client for tools that call an API.

Example:

    from fastmcp.tools import tool

    from mcp_swarm import downstream

    @tool
    async def rate(currency: str) -> float:
        reply = await downstream.get(f"https://api.example.com/rates/{currency}")
        return float(reply.json()["rate"])

The result is an `httpx2.Response` with a 2xx status. In all other cases the client raises a `ToolError` that names the
host. A tool may let this error pass to its caller. All calls of a process share their connections and the state of each
host.
"""

import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2

from mcp_swarm.downstream.client import Downstream
from mcp_swarm.downstream.errors import (
    BadStatus,
    CircuitOpen,
    DownstreamError,
    Limited,
    TimedOut,
    Unreachable,
    Unusable,
)
from mcp_swarm.downstream.hosts import Hosts
from mcp_swarm.settings.downstream import DownstreamSettings

__all__ = [
    "BadStatus",
    "CircuitOpen",
    "Downstream",
    "DownstreamError",
    "Limited",
    "TimedOut",
    "Unreachable",
    "Unusable",
    "client",
    "close",
    "closing",
    "configure",
    "get",
    "post",
    "request",
]

HOSTS = Hosts(DownstreamSettings.model_construct())
_DEFAULT = Downstream(HOSTS)
_CLIENTS = weakref.WeakSet([_DEFAULT])

get, post, request = _DEFAULT.get, _DEFAULT.post, _DEFAULT.request
configure = HOSTS.configure


def client(transport: Callable[[], httpx2.AsyncBaseTransport]) -> Downstream:
    """Return a client with its own transport, which `transport` makes. All clients share the state of the hosts."""
    made = Downstream(HOSTS, transport)
    _CLIENTS.add(made)
    return made


async def close() -> None:
    """Close all connections. The next call opens new ones."""
    for each in list(_CLIENTS):
        await each.close()


@asynccontextmanager
async def closing() -> AsyncIterator[None]:
    """Close all connections on exit, when the process stops."""
    try:
        yield
    finally:
        await close()
