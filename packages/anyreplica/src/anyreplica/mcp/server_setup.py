"""The setup of a FastMCP server: what this package changes in it, and in the servers that are mounted in it.

A server also works for this package and not for a caller: it lists its components for plans, and it warms up.
Middleware of the server's author must not see this work: it would count or log requests that no client has sent.

`Sharing` sets up the connections of a replica to the other replicas: Redis, subscriptions and peers.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import httpx2
from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.request_state import RequestStateBoundary
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    EmptyResult,
    SetLevelRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from starlette.types import ASGIApp

from anyreplica.auth.visibility import InnerVisibility, ProxiedVisibility, Visibility
from anyreplica.components.call_limits import CallLimits
from anyreplica.mcp.compat import mounts, sdk, state_store
from anyreplica.mcp.compat.dispatch import share_levels
from anyreplica.mcp.compat.masking import choose_masking
from anyreplica.mcp.compat.overrides import needs_no_author
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.compat.state_store import StateStore
from anyreplica.mcp.registry import Prepare
from anyreplica.mcp.request_state import OneUse, note_state
from anyreplica.settings import CoreSettings
from anyreplica.shared import publish
from anyreplica.shared.events import RedisBus
from anyreplica.shared.peers import peers
from anyreplica.shared.redis import connect

logger = logging.getLogger(__name__)

_ENVELOPE = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}


class OwnMiddleware(Middleware):
    """The class of the middleware that features add. It treats all requests alike."""


OWN_MIDDLEWARE = (OwnMiddleware, CallLimits, Visibility, DereferenceRefsMiddleware)
"""The classes of middleware that are not the author's. They treat all requests alike."""


_OWN_WORK: ContextVar[bool] = ContextVar("own_work", default=False)


class _MiddlewareList(list[Middleware]):
    """The middleware of a FastMCP server. FastMCP calls `reversed` on it to run a request through the middleware."""

    def __reversed__(self) -> Iterator[Middleware]:
        """Return the middleware of a request, innermost first."""
        if _OWN_WORK.get():
            ours = [each for each in self if isinstance(each, OWN_MIDDLEWARE)]
            return reversed([each for each in ours if not isinstance(each, InnerVisibility)])
        return super().__reversed__()


def can_hide_own_work(server: FastMCP) -> None:
    """Prepare a server so that `own_work` has its effect. This may be repeated."""
    if type(server.middleware) is not _MiddlewareList:
        server.middleware = _MiddlewareList(server.middleware)


@contextmanager
def own_work() -> Iterator[None]:
    """Inside the `with` block, requests of this task and its children do not reach the middleware of authors."""
    token = _OWN_WORK.set(True)
    try:
        yield
    finally:
        _OWN_WORK.reset(token)


async def warm_up(app: ASGIApp, path: str, mcp: FastMCP) -> None:
    """Request the list of tools from `app`, at the path of its endpoint, in both protocol families.

    A server of the MCP SDK may have no list of tools, or one that needs a caller. It gets other requests, and only
    those that run no code of its author.

    Without the warm-up, the first call of a replica takes 300 ms longer.

    Raises:
        RuntimeError: the app does not answer a request for its tools with HTTP status 200.
    """
    is_sdk = isinstance(mcp, SdkServer)
    methods = ("ping", "server/discover") if is_sdk else ("tools/list", "tools/list")
    routing = {"mcp-protocol-version": LATEST_MODERN_VERSION, "mcp-method": methods[1]}
    if not is_sdk or needs_no_author(mcp, methods[0]):
        await _call(app, path, methods[0], {"mcp-protocol-version": LATEST_HANDSHAKE_VERSION}, {})
    if not is_sdk or needs_no_author(mcp, methods[1]):
        await _call(app, path, methods[1], routing, {"_meta": _ENVELOPE})


async def _call(app: ASGIApp, path: str, method: str, headers: dict[str, str], params: dict[str, object]) -> None:
    message = {"jsonrpc": "2.0", "id": 0, "method": method, "params": params}
    headers = {"accept": "application/json, text/event-stream", **headers}
    request = httpx2.Request("POST", f"http://127.0.0.1{path}", json=message, headers=headers)
    # Without a client: its class may be one that the author has replaced.
    response = await httpx2.ASGITransport(app).handle_async_request(request)
    if method == "tools/list" and response.status_code != 200:
        raise RuntimeError(f"Warm-up: the server answered its own {method} with HTTP status {response.status_code}")


class ServerSetup:
    """The adopted servers. A server may be mounted while the replica runs: call `apply` after each change.

    Attributes:
        timeouts: time limits of tools with a timeout of their own, in seconds, by the name that clients use. The
            planner fills it.
    """

    def __init__(self, mcp: FastMCP, prepare: Prepare, *, shows_errors: bool, limits_tools: bool) -> None:
        self.mcp = mcp
        self.timeouts: dict[str, float] = {}
        _forget_sessions(mcp)
        self._prepare = prepare
        self._shows_errors = shows_errors
        self._limits_tools = limits_tools
        self._state: StateStore | None = None
        self._keeps_state = False

    def apply(self) -> None:
        """Prepare all servers: their components, the masking of their errors, and their stores of session state.

        If callers may have a list of tools, mounted servers get the middleware that applies it, and so do servers of
        this process behind a proxy, before the proxy first uses them.

        Raises:
            ValueError: a component cannot be prepared.
        """
        for number, server in enumerate(mounts.servers_of(self.mcp)):
            can_hide_own_work(server)
            mounts.prepare_components(server, self._prepare)
            choose_masking(server, self.mcp, debug=self._shows_errors)
            if number and self._limits_tools:
                others = [each for each in server.middleware if type(each) is not InnerVisibility]
                server.middleware[:] = [InnerVisibility(partial(mounts.outer_names, self.mcp, server)), *others]
            if self._limits_tools:
                mounts.watch_proxies(server, self._limit_proxied)
            if self._keeps_state:
                share_levels(server)
            if self._state is not None:
                # Each server has state of its own. All replicas number their servers in the same order.
                state_store.store_state(server, self._state.part(number))

    def _limit_proxied(self, proxied: FastMCP) -> None:
        """Apply the lists of tools in a server behind a proxy, and in all servers inside it."""
        for server in mounts.servers_of(proxied):
            found = [each for each in server.middleware if isinstance(each, ProxiedVisibility)]
            if not any(each.root is self.mcp for each in found):
                others = [each for each in server.middleware if each not in found]
                names = partial(mounts.outer_names, self.mcp, server)
                server.middleware[:] = [ProxiedVisibility(self.mcp, names), *others]
            mounts.watch_proxies(server, self._limit_proxied)

    def store_state(self, state: StateStore, *, keeps_state: bool) -> None:
        """Choose the store for session state.

        Args:
            keeps_state: whether a session of a client keeps state between its calls.
        """
        self._state, self._keeps_state = state, keeps_state
        self.apply()


def _forget_sessions(mcp: FastMCP) -> None:
    """Configure a server so that it keeps no session state and announces no notifications outside a reply.

    A server of the SDK keeps none, and it announces what its author has chosen.
    """
    if isinstance(mcp, SdkServer):
        return
    server = sdk.low_level(mcp)
    server.notification_options = NotificationOptions()
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, _ignore_level)


async def _ignore_level(*_: Any) -> EmptyResult:
    """Accept a log level and ignore it, because FastMCP would apply it to all clients of this replica.

    A handshake-protocol client gets all log messages of its calls, if it accepts an event stream.
    """
    return EmptyResult()


_LISTEN = "subscriptions/listen"


class Subscriptions(ListenHandler):
    """The handler of `subscriptions/listen`, until `close`."""

    def __init__(self, bus: SubscriptionBus, most: int) -> None:
        super().__init__(bus, max_subscriptions=most)
        self._closed = False

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one event stream.

        Raises:
            MCPError: subscriptions are closed, so nothing would end the stream.
        """
        if self._closed:
            raise MCPError(INTERNAL_ERROR, f"This replica has closed its subscriptions; send {_LISTEN} again.")
        return await super().__call__(ctx, params)

    def end_streams(self) -> None:
        """End all open event streams, each with its result. Clients may open new ones."""
        super().close()

    def close(self) -> None:
        """End all event streams, each with its result, and refuse new ones."""
        self._closed = True
        self.end_streams()


class Sharing:
    """The connections of one replica to the others.

    The server offers subscriptions only if an event reaches every listener: with Redis, or with a single replica.

    Raises:
        StartupError: REDIS_URL cannot be used.
    """

    def __init__(self, settings: CoreSettings, mcp: FastMCP, replica: str) -> None:
        if settings.replicas_dns and not settings.request_state_ring:
            text = "Multi-round tools work with a single replica only: more replicas need the same REQUEST_STATE_KEYS"
            logger.warning(text)
        self.redis = connect(settings)
        self.peers = peers(settings, self.redis, replica)
        self.close_streams: Callable[[], None] = lambda: None
        """Ends all event streams of subscriptions."""
        self.bus: SubscriptionBus | None = None
        """The change events of all replicas; None if this replica does not get those of the others."""
        self._bus: RedisBus | None = None
        if self.redis is not None:
            # The boundary unseals request states. One middleware must run before it, the other one after it.
            middleware = sdk.low_level(mcp).middleware
            if any(isinstance(each, RequestStateBoundary) for each in middleware):
                middleware.insert(0, note_state)
                middleware.append(OneUse(self.redis, settings.request_state_seconds, settings.mcp_name))
            self._bus = RedisBus.of(self.redis, settings.mcp_name)
        elif not settings.is_single:
            logger.info("Subscriptions are disabled: with more than one replica they need REDIS_URL")
            if isinstance(mcp, SdkServer) and not mcp.listens_over(None):
                self.close_streams = mcp.close_streams
            return
        bus = self.bus = self._bus or InMemorySubscriptionBus()
        publish.use_bus(bus)
        if isinstance(mcp, SdkServer) and not mcp.listens_over(bus):
            self.close_streams = mcp.close_streams
            return
        subscriptions = Subscriptions(bus, settings.subscriptions)
        if isinstance(mcp, SdkServer):
            mcp.end_streams_with(subscriptions.end_streams)
        sdk.low_level(mcp).add_request_handler(_LISTEN, SubscriptionsListenRequestParams, subscriptions)
        self.close_streams = subscriptions.close

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the connections open inside the `async with` block."""
        async with AsyncExitStack() as stack:
            if self.redis is not None:
                stack.push_async_callback(self.redis.aclose)
            if self._bus is not None:
                await stack.enter_async_context(self._bus.running())
            await stack.enter_async_context(self.peers.running())
            yield
