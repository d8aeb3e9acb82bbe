"""The HTTP client for tools that call an API.

Example:

    from fastmcp.tools import tool

    from anyreplica import downstream

    @tool
    async def rate(currency: str) -> float:
        reply = await downstream.get(f"https://api.example.com/rates/{currency}")
        return float(reply.json()["rate"])

The result is an `httpx2.Response` with a 2xx status. In all other cases the client raises a `ToolError` that names the
host. A tool may let this error pass to its caller. All calls of a process share their connections and the state of each
host.

If the operator configured token exchange for a host (`DOWNSTREAM_TOKENS_FILE`), calls of this host carry a token of the
tool's caller: the client exchanges the caller's token for one of the API.
"""

import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2

from anyreplica.downstream.client import Downstream
from anyreplica.downstream.errors import (
    BadStatus,
    CircuitOpen,
    DownstreamError,
    Limited,
    NoToken,
    TimedOut,
    Unreachable,
    Unusable,
)
from anyreplica.downstream.exchange.caller_tokens import CallerTokens
from anyreplica.downstream.hosts import Hosts
from anyreplica.settings.downstream import DownstreamSettings

__all__ = [
    "BadStatus",
    "CircuitOpen",
    "Downstream",
    "DownstreamError",
    "Limited",
    "NoToken",
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
_TOKEN_ENDPOINTS = Downstream(HOSTS)
TOKENS = CallerTokens(_TOKEN_ENDPOINTS.post)
_DEFAULT = Downstream(HOSTS, tokens=TOKENS)
_CLIENTS = weakref.WeakSet([_DEFAULT, _TOKEN_ENDPOINTS])

get, post, request = _DEFAULT.get, _DEFAULT.post, _DEFAULT.request


def configure(settings: DownstreamSettings, caller_token: Callable[[], str | None] | None = None) -> None:
    """Drop the state of all hosts and all exchanged tokens, and use these settings.

    `caller_token` returns the token of the current caller, which is exchanged for tokens of APIs.

    Raises:
        StartupError: `DOWNSTREAM_TOKENS_FILE` is not valid.
    """
    TOKENS.configure(settings.downstream_tokens_file, caller_token)
    HOSTS.configure(settings)


def client(transport: Callable[[], httpx2.AsyncBaseTransport]) -> Downstream:
    """Return a client with its own transport, which `transport` makes. All clients share the state of the hosts."""
    made = Downstream(HOSTS, transport, TOKENS)
    _CLIENTS.add(made)
    return made


async def close() -> None:
    """Close all connections. The next call opens new ones."""
    TOKENS.cache.stop()
    for each in list(_CLIENTS):
        await each.close()


@asynccontextmanager
async def closing() -> AsyncIterator[None]:
    """Close all connections on exit, when the process stops."""
    try:
        yield
    finally:
        await close()
