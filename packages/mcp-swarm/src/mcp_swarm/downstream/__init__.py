"""What a tool uses to call an API.

Example:

    from fastmcp.tools import tool

    from mcp_swarm import downstream

    @tool
    async def rate(currency: str) -> float:
        reply = await downstream.get(f"https://api.example.com/rates/{currency}")
        return float(reply.json()["rate"])

The answer is an `httpx2.Response` of status 2xx. Anything else is a `ToolError` that names the host, which a tool may
leave to its caller. The calls of a process share their connections, and what is known of each host.
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
    """A client that connects by what `transport` makes, and shares all else."""
    made = Downstream(HOSTS, transport)
    _CLIENTS.add(made)
    return made


async def close() -> None:
    """Close all connections; the next call opens others."""
    for each in list(_CLIENTS):
        await each.close()


@asynccontextmanager
async def closing() -> AsyncIterator[None]:
    """Close all connections when the block is left, as the process stops."""
    try:
        yield
    finally:
        await close()
