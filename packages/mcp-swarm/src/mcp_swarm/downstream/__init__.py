"""What a tool uses to call an API.

    from server import downstream

    @tool
    async def rate(currency: str) -> float:
        reply = await downstream.get(f"https://api.example.com/rates/{currency}")
        return reply.json()["rate"]

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
from mcp_swarm.downstream.hosts import Hosts, HostState
from mcp_swarm.settings.downstream import DownstreamSettings

__all__ = [
    "BadStatus",
    "CircuitOpen",
    "Downstream",
    "DownstreamError",
    "HostState",
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
    "state",
]

_HOSTS = Hosts(DownstreamSettings.model_construct())
_CLIENTS: "weakref.WeakSet[Downstream]" = weakref.WeakSet()


def client(transport: Callable[[], httpx2.AsyncBaseTransport]) -> Downstream:
    """A client that connects in a way of its own, and shares all else.

    Args:
        transport: makes what connects.
    """
    made = Downstream(_HOSTS, transport)
    _CLIENTS.add(made)
    return made


_DEFAULT = Downstream(_HOSTS)
_CLIENTS.add(_DEFAULT)
get, post, request = _DEFAULT.get, _DEFAULT.post, _DEFAULT.request
state, configure = _HOSTS.state, _HOSTS.configure


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
