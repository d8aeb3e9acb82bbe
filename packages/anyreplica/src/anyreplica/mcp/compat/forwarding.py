"""Which headers of a request FastMCP passes on to other servers, and which tokens proxies get.

FastMCP passes on nearly all headers of a caller, also its credentials: in each proxy, in each client that a tool opens,
and in the requests of `FastMCP.from_openapi`. This module lets only an allow-list through. It replaces one function of
FastMCP, which all of them call. A test starts each kind of proxy, so that it fails if FastMCP finds another way.

Some proxies reach a server in the same process (`create_proxy(server)`). FastMCP gives such a server the calls of a
proxy as those of any client. Only a client of the proxy shows which server it reaches, and a proxy makes a new client
for each request.
"""

import contextlib
import copy
import functools
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any
from weakref import WeakSet

import httpx2
from fastmcp import FastMCP
from fastmcp.server import dependencies
from fastmcp.server.providers import Provider

from anyreplica.auth.authentication import login_name
from anyreplica.auth.visibility import note_proxied_request
from anyreplica.http.request_record import CREDENTIALS
from anyreplica.settings import CoreSettings
from anyreplica.settings.errors import StartupError

_ALWAYS = frozenset({"traceparent", "tracestate", "accept-language"})
"""The headers that every other server gets: trace context (W3C) and language."""
_SECRET = {name.decode() for name in CREDENTIALS}
_FOR_TOOLS = "fastmcp.server.dependencies"
"""The module of FastMCP that gives headers to tools. All other modules of FastMCP send headers to other servers."""

_all_headers = dependencies.get_http_headers


def refuse_credentials(settings: CoreSettings, reason: str = "") -> None:
    """Check that `FORWARD_HEADERS` names no header with credentials, if callers authenticate.

    Args:
        reason: why this server may have such callers, if the settings and the server do not say so.

    Raises:
        StartupError: it names one.
    """
    secret = sorted(_SECRET.intersection(settings.forward_headers))
    if secret:
        raise StartupError(
            f"FORWARD_HEADERS={secret[0]}: this header carries the credentials of callers, which must not leave this "
            f"server{reason}; remove it, and give other servers tokens of their own with DOWNSTREAM_TOKENS_FILE "
            "(proxies get them by themselves, and the client of FastMCP.from_openapi with auth=downstream.CallerAuth())"
        )


def forward_only(mcp: FastMCP, settings: CoreSettings, authenticating: Sequence[str]) -> None:
    """From now on, pass on only the headers of the allow-list and of `FORWARD_HEADERS`, in the whole process.

    Args:
        authenticating: names of middleware of the server's author that may authenticate callers.

    Raises:
        StartupError: `FORWARD_HEADERS` names a header with credentials, and callers authenticate or may do so.
    """
    if settings.auth_enabled or login_name(mcp, settings):
        refuse_credentials(settings)
    elif authenticating:
        refuse_credentials(settings, f" (middleware {authenticating[0]} may authenticate callers)")
    allowed = _ALWAYS | frozenset(settings.forward_headers)

    @functools.wraps(_all_headers)
    def get_http_headers(include_all: bool = False, include: set[str] | None = None) -> dict[str, str]:
        frame = inspect.currentframe()
        asking = frame.f_back if frame is not None else None
        module = str(asking.f_globals.get("__name__", "")) if asking is not None else "fastmcp.unknown"
        if not module.startswith("fastmcp.") or module == _FOR_TOOLS:
            return _all_headers(include_all=include_all, include=include)
        given = _all_headers(include=_SECRET)  # without the headers that belong to one connection
        return {name: value for name, value in given.items() if name in allowed}

    before = dependencies.get_http_headers
    for name, module in list(sys.modules.items()):  # some modules have imported the function by its name
        if name.startswith("fastmcp.") and getattr(module, "get_http_headers", None) is before:
            module.get_http_headers = get_http_headers  # type: ignore[attr-defined]


Authorize = Callable[[str], Awaitable[httpx2.Auth | None]]
"""Returns the authentication of the current caller for the URL of an MCP server. None: the server gets no token."""
_connects: dict[type, Any] = {}
"""FastMCP's own functions that connect a session, by the class of the transport."""
_is_fresh: list[Any] = []
"""FastMCP's own function that says whether a proxy may use a kept list again. Empty: nothing replaces it."""


def authorize_proxies(authorize: Authorize | None) -> None:
    """From now on, authenticate each session of a proxy with its MCP server, in the whole process.

    From the first token on, no proxy uses a list of components again, because it may be the list of another caller.
    What the author has configured for the server comes first: an `auth`, or a header `Authorization`. A client that a
    tool opens is no proxy.

    Args:
        authorize: None: do not authenticate the sessions of proxies any more.
    """
    _keep_lists()
    if authorize is None and not _connects:
        return
    from fastmcp.client.transports import SSETransport, StreamableHttpTransport  # noqa: PLC0415  # a slow import

    for kind in (SSETransport, StreamableHttpTransport):
        _connects.setdefault(kind, kind.connect_session)
    SSETransport.connect_session = _authorized(_connects[SSETransport], authorize)  # type: ignore[method-assign]
    http = StreamableHttpTransport
    StreamableHttpTransport.connect_session = _authorized(_connects[http], authorize)  # type: ignore[method-assign]


def _authorized(connect: Any, authorize: Authorize | None) -> Any:
    if authorize is None:
        return connect

    @functools.wraps(connect)
    @contextlib.asynccontextmanager
    async def connect_session(self: Any, *, transport_options: Any = None, **options: Any) -> AsyncIterator[Any]:
        is_proxy = transport_options is not None and transport_options.forward_incoming_headers
        if is_proxy and self.auth is None and "authorization" not in map(str.lower, self.headers):
            auth = await authorize(self.url)
            if auth is not None:
                _keep_no_lists()
                self = copy.copy(self)  # callers share the transport, but not the token
                self.auth = auth
        async with connect(self, transport_options=transport_options, **options) as session:
            yield session

    return connect_session


def _keep_no_lists() -> None:
    """Let all proxies of the process ask for the lists of components for each request."""
    if not _is_fresh:
        from fastmcp.server.providers.proxy import _CacheEntry  # noqa: PLC0415  # a slow import

        _is_fresh.append(_CacheEntry.is_fresh)
        _CacheEntry.is_fresh = lambda *_: False  # type: ignore[method-assign]


def _keep_lists() -> None:
    """Let the proxies of the process keep lists as FastMCP does."""
    if _is_fresh:
        from fastmcp.server.providers.proxy import _CacheEntry  # noqa: PLC0415  # a slow import

        _CacheEntry.is_fresh = _is_fresh.pop()  # type: ignore[method-assign]


_PROXIES = "fastmcp.server.providers.proxy"
"""Its import takes a second, which a server without proxies saves."""
_MEMORY = "fastmcp.client.transports.memory"


class WatchedClients:
    """Makes the clients of a proxy, as the proxy's own `client_factory` does.

    Args:
        make: the proxy's own factory.
        limit: called with each server of this process that a client reaches, before the client is used.

    Attributes:
        servers: the servers that clients have reached.
    """

    def __init__(self, make: Callable[[], Any], limit: Callable[[FastMCP], None]) -> None:
        self.make = make
        self.limit = limit
        self.servers: WeakSet[FastMCP] = WeakSet()

    def __call__(self) -> Any:
        """Return a client, or what the proxy has to await for it."""
        note_proxied_request()
        client = self.make()
        return self._awaited(client) if inspect.isawaitable(client) else self._watched(client)

    async def _awaited(self, client: Awaitable[Any]) -> Any:
        return self._watched(await client)

    def _watched(self, client: Any) -> Any:
        transport = getattr(client, "transport", None)
        if isinstance(transport, sys.modules[_MEMORY].FastMCPTransport) and isinstance(transport.server, FastMCP):
            self.servers.add(transport.server)
            self.limit(transport.server)
        return client


def watch(provider: Provider, limit: Callable[[FastMCP], None]) -> None:
    """Call `limit` with each server of this process that a provider reaches, if it is a proxy. This may be repeated."""
    if _PROXIES not in sys.modules or not isinstance(provider, sys.modules[_PROXIES].ProxyProvider):
        return
    make = provider.client_factory
    if isinstance(make, WatchedClients):
        if make.limit == limit:
            return
        make = make.make
    # The tools that a proxy has listed before have the other factory. It lists them again for the next call plans.
    provider.client_factory = WatchedClients(make, limit)


def servers_behind(provider: Provider) -> Iterable[FastMCP]:
    """Return the servers of this process that a proxy has reached. Other providers have none."""
    factory = getattr(provider, "client_factory", None)
    return list(factory.servers) if isinstance(factory, WatchedClients) else ()
