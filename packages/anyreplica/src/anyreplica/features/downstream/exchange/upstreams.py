"""Exchanged tokens for calls that other HTTP clients make: those of proxies, and those of `FastMCP.from_openapi`."""

from collections.abc import AsyncGenerator, Generator

import httpx2

from anyreplica.components import call_limits
from anyreplica.features.downstream.errors import Unusable
from anyreplica.features.downstream.exchange.caller_tokens import CallerTokens
from anyreplica.features.downstream.exchange.entry import TokenExchange

_UNAUTHORIZED = 401


class UpstreamTokens:
    """The exchanged tokens of the callers, for the hosts of `DOWNSTREAM_TOKENS_FILE`.

    Attributes:
        seconds: time limit for an exchange in seconds.
    """

    def __init__(self, tokens: CallerTokens) -> None:
        self.seconds = 30.0
        self._tokens = tokens

    async def for_session(self, url: str) -> httpx2.Auth | None:
        """Return the authentication of a session with an MCP server. None: the file does not name its host.

        The token is that of the current caller. All requests of the session carry it.

        Raises:
            NoToken: the caller has no token, or the exchange failed.
            Unusable: the token would go over plain HTTP.
        """
        parsed = httpx2.URL(url)
        exchange = self._tokens.exchange_for(_host_of(parsed))
        return None if exchange is None else SessionToken(self._tokens, exchange, *await self.pair(exchange, parsed))

    async def for_request(self, request: httpx2.Request) -> tuple[TokenExchange, str, str]:
        """Return the exchange for a request, the caller's token, and the token that was exchanged for it.

        Raises:
            NoToken: see `for_session`.
            Unusable: see `for_session`; also if the file does not name the host.
        """
        host = _host_of(request.url)
        exchange = self._tokens.exchange_for(host)
        if exchange is None:
            raise Unusable(f"{host} was not called: it has no token exchange (DOWNSTREAM_TOKENS_FILE)")
        return exchange, *await self.pair(exchange, request.url)

    async def pair(self, exchange: TokenExchange, url: httpx2.URL) -> tuple[str, str]:
        """Return the token of the current caller, and the one that was exchanged for it."""
        if not exchange.may_carry(url):
            raise Unusable(f"{exchange.host} was not called: its token must not go over plain HTTP; use https://")
        own, left = self._tokens.own(), call_limits.remaining_seconds()
        return own, await self._tokens.token(exchange, own, self.seconds if left is None else min(self.seconds, left))

    def drop(self, exchange: TokenExchange, own: str, token: str) -> None:
        """Drop a token that the host did not accept."""
        self._tokens.drop(exchange, own, token)


class SessionToken(httpx2.Auth):
    """One exchanged token. If the host refuses it, the next session gets another one."""

    def __init__(self, tokens: CallerTokens, exchange: TokenExchange, own: str, token: str) -> None:
        self._tokens, self._exchange, self._own, self._token = tokens, exchange, own, token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the token to a request of the session."""
        if _host_of(request.url) == self._exchange.host and self._exchange.may_carry(request.url):
            request.headers["Authorization"] = f"Bearer {self._token}"
        response = yield request
        if response.status_code == _UNAUTHORIZED:
            self._tokens.drop(self._exchange, self._own, self._token)


class CallerAuth(httpx2.Auth):
    """An authentication of httpx2: each request carries a token that was exchanged for the token of the caller.

    The operator configures the exchange for the host in `DOWNSTREAM_TOKENS_FILE`, as for the calls of `downstream`. A
    request to another host, over plain HTTP, or of a caller without a token is not sent: it raises a
    `DownstreamError`.

    Example:

        import httpx2
        from fastmcp import FastMCP

        from anyreplica import downstream

        api = httpx2.AsyncClient(base_url="https://api.example.com", auth=downstream.CallerAuth())
        spec = {"openapi": "3.1.0", "info": {"title": "Orders", "version": "1"}, "paths": {}}
        mcp = FastMCP.from_openapi(spec, client=api)
    """

    tokens: UpstreamTokens

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Raise an error: an exchange needs an event loop."""
        raise Unusable(f"{_host_of(request.url)} was not called: downstream.CallerAuth needs an httpx2.AsyncClient")

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token. If the host refuses it, repeat the request once with a new token."""
        await request.aread()  # a request that is sent again needs its body
        exchange, own, token = await self.tokens.for_request(request)
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code != _UNAUTHORIZED:
            return
        self.tokens.drop(exchange, own, token)
        _, _, new = await self.tokens.for_request(request)
        if new != token:
            request.headers["Authorization"] = f"Bearer {new}"
            yield request


def attach_tokens(tokens: UpstreamTokens) -> None:
    """Let each `CallerAuth` send these tokens."""
    CallerAuth.tokens = tokens


def _host_of(url: httpx2.URL) -> str:
    return url.netloc.decode("ascii")
