"""The HTTP clients of a process: they share the state of the hosts and the exchanged tokens."""

import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2

from anyreplica.features.downstream.exchange.caller_tokens import CallerTokens
from anyreplica.features.downstream.exchange.upstreams import UpstreamTokens, attach_tokens
from anyreplica.features.downstream.hosts import Hosts
from anyreplica.features.downstream.http_client import Downstream
from anyreplica.features.downstream.settings import DownstreamSettings

HOSTS = Hosts(DownstreamSettings.model_construct())
_TOKEN_ENDPOINTS = Downstream(HOSTS)
TOKENS = CallerTokens(_TOKEN_ENDPOINTS.post)
UPSTREAMS = UpstreamTokens(TOKENS)
attach_tokens(UPSTREAMS)
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
    UPSTREAMS.seconds = settings.downstream_timeout_seconds
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
