"""The client: what calls have in common."""

from collections.abc import Callable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypedDict, Unpack

import httpx2

from mcp_swarm.downstream import deadline
from mcp_swarm.downstream.call import ApiCall
from mcp_swarm.downstream.errors import Unusable
from mcp_swarm.downstream.hosts import Hosts

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods whose calls may be repeated (RFC 9110, section 9.2.2), since twice does what once does."""

_MARGIN = 0.05
"""Seconds before its deadline in which a call is told which host was slow, rather than only that its tool was."""


class ApiCallOptions(TypedDict, total=False):
    """What may be said of a call.

    Attributes:
        params: the URL's query.
        json: the body, to be written as JSON.
        content: the body as it is.
        idempotent: whether the call may be repeated; else its method says so.
        timeout: seconds for all of it; at most what is left of the tool's own call.
        max_bytes: of the answer.
    """

    params: Mapping[str, str | int | float | bool]
    headers: Mapping[str, str]
    json: Any
    content: bytes | str
    auth: httpx2.Auth
    idempotent: bool
    timeout: float
    max_bytes: int


class Downstream:
    """A client: one pool of connections, opened by the first call and shared by all.

    `transport` makes what connects, where that isn't httpx2's own way.
    """

    def __init__(self, hosts: Hosts, transport: Callable[[], httpx2.AsyncBaseTransport] | None = None) -> None:
        self._hosts = hosts
        self._transport = transport
        self._opened: httpx2.AsyncClient | None = None

    async def get(self, url: str, **options: Unpack[ApiCallOptions]) -> httpx2.Response:
        """GET; see `request`."""
        return await self.request("GET", url, **options)

    async def post(self, url: str, **options: Unpack[ApiCallOptions]) -> httpx2.Response:
        """POST, which is tried once unless `idempotent=True` is among the options; see `request`."""
        return await self.request("POST", url, **options)

    async def request(self, method: str, url: str, **options: Unpack[ApiCallOptions]) -> httpx2.Response:
        """Call an API. Redirects aren't followed, and cookies not kept.

        Returns:
            An answer with a status of 2xx, read to its end.

        Raises:
            Unreachable: there was no connection, or it broke off.
            TimedOut: it took too long.
            CircuitOpen: calls to the host have failed; none is made for a while.
            Limited: there are as many calls to the host as may be.
            BadStatus: the answer has another status.
            Unusable: the answer is too large, or compressed; or `url` is no URL that can be called.
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
        left = deadline.remaining()
        return await call.run(seconds if left is None else min(seconds, left - _MARGIN))

    async def close(self) -> None:
        """Close the connections; the next call opens others."""
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
            raise Unusable("that is no URL, or one that is too long") from None
        if request.url.scheme not in ("http", "https") or not request.url.host:
            raise Unusable("that is no URL that begins with http:// or https:// and a host's name")
        return request

    def _client(self) -> httpx2.AsyncClient:
        if self._opened is None:
            settings = self._hosts.settings
            read = settings.downstream_read_seconds
            self._opened = httpx2.AsyncClient(
                transport=self._transport() if self._transport else None,
                # Not compressed, so that what comes is as large as it will be.
                headers={"Accept-Encoding": "identity"},
                # One caller's cookies would be sent with the next one's call.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                # Each host's places bound how many there are.
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
                timeout=httpx2.Timeout(read, connect=settings.downstream_connect_seconds, pool=None),
            )
        return self._opened
