"""The HTTP client of tools, with the settings and connections that its calls share."""

import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypedDict, Unpack

import httpx2

from anyreplica.components import call_limits
from anyreplica.features.downstream.call import ApiCall
from anyreplica.features.downstream.errors import Unusable
from anyreplica.features.downstream.exchange.caller_tokens import CallerTokens
from anyreplica.features.downstream.exchange.exchanged_call import exchanged_call
from anyreplica.features.downstream.exchange.upstreams import UpstreamTokens, attach_tokens
from anyreplica.features.downstream.hosts import Hosts
from anyreplica.features.downstream.settings import DownstreamSettings

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Idempotent methods (RFC 9110, section 9.2.2). The client may retry them: two calls have the same effect as one."""

_MARGIN = 0.05
"""Seconds between the time limit of a call to a host and the deadline of the tool. So the error names the slow host,
not only the slow tool."""


class ApiCallOptions(TypedDict, total=False):
    """The options of a call.

    Attributes:
        params: the query of the URL.
        headers: additional headers of the request.
        json: an object that the client sends as a JSON body.
        content: the body as bytes or text.
        auth: an authentication object of httpx2.
        idempotent: whether the client may retry the call. Default: depends on the method.
        timeout: time limit for the call with its retries, in seconds. The remaining time of the tool limits it, too.
        max_bytes: maximum size of the response, in bytes.
        exchange: whether the call carries a token that was exchanged for the caller's token. True: it must. False: it
            must not. Default: it does if the operator configured the host in `DOWNSTREAM_TOKENS_FILE` and the tool
            passes no credentials itself.
    """

    params: Mapping[str, str | int | float | bool]
    headers: Mapping[str, str]
    json: Any
    content: bytes | str
    auth: httpx2.Auth
    idempotent: bool
    timeout: float
    max_bytes: int
    exchange: bool


class Downstream:
    """A client with one pool of connections, which its first call opens and all its calls share.

    `transport` makes the transport of httpx2. Default: httpx2's own transport. Without `tokens`, no call carries an
    exchanged token.
    """

    def __init__(
        self,
        hosts: Hosts,
        transport: Callable[[], httpx2.AsyncBaseTransport] | None = None,
        tokens: CallerTokens | None = None,
    ) -> None:
        self._hosts = hosts
        self._tokens = tokens
        self._transport = transport
        self._opened: httpx2.AsyncClient | None = None

    async def get(self, url: str, **options: Unpack[ApiCallOptions]) -> httpx2.Response:
        """Make a GET call. See `request`."""
        return await self.request("GET", url, **options)

    async def post(self, url: str, **options: Unpack[ApiCallOptions]) -> httpx2.Response:
        """Make a POST call, without retries unless the options contain `idempotent=True`. See `request`."""
        return await self.request("POST", url, **options)

    async def request(self, method: str, url: str, **options: Unpack[ApiCallOptions]) -> httpx2.Response:
        """Call an API. The client does not follow redirects and does not store cookies.

        Returns:
            The complete response, with a 2xx status.

        Raises:
            Unreachable: there was no connection, or the connection failed.
            TimedOut: the call took too long.
            CircuitOpen: earlier calls to the host failed, and the circuit is open.
            Limited: the limit of calls to the host is reached.
            BadStatus: the response has another status.
            NoToken: the host needs an exchanged token, and there is none for the caller.
            Unusable: the response is too large or compressed, or the client cannot make this call.
        """
        settings = self._hosts.settings
        request = self._request(method, url, options)
        host = self._hosts.of(request.url.netloc.decode("ascii"))
        may_repeat = options.get("idempotent", request.method in IDEMPOTENT)
        call = ApiCall(
            self._client(),
            host,
            request,
            auth=options.get("auth"),
            retries=settings.downstream_retries if may_repeat else 0,
            max_bytes=options.get("max_bytes", settings.downstream_max_bytes),
        )
        seconds = options.get("timeout", settings.downstream_timeout_seconds)
        left = call_limits.remaining_seconds()
        limit = seconds if left is None else min(seconds, left - _MARGIN)
        exchanged = None
        if self._tokens is not None:
            exchange = self._tokens.exchange_for(host.name)
            exchanged = exchanged_call(self._tokens, call, exchange, options.get("exchange"))
        return await (exchanged or call).run(limit)

    async def close(self) -> None:
        """Close the connections. The next call opens new ones."""
        client, self._opened = self._opened, None
        if client is not None:
            await client.aclose()

    def _request(self, method: str, url: str, options: ApiCallOptions) -> httpx2.Request:
        try:
            request = self._client().build_request(
                method,
                url,
                params=options.get("params"),
                headers=options.get("headers"),
                json=options.get("json"),
                content=options.get("content"),
            )
        except httpx2.InvalidURL:
            raise Unusable("The URL is not valid or is too long") from None
        if request.url.scheme not in ("http", "https") or not request.url.host:
            raise Unusable("The URL is not valid: it must begin with http:// or https:// and the name of a host")
        return request

    def _client(self) -> httpx2.AsyncClient:
        if self._opened is None:
            settings = self._hosts.settings
            read = settings.downstream_read_seconds
            self._opened = httpx2.AsyncClient(
                transport=self._transport() if self._transport else None,
                # No compression, so that the received size is the final size.
                headers={"Accept-Encoding": "identity"},
                # No cookies, because the client would send one caller's cookies with the call of another caller.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                # The limit of calls to each host also limits the connections.
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
                timeout=httpx2.Timeout(read, connect=settings.downstream_connect_seconds, pool=None),
            )
        return self._opened


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
