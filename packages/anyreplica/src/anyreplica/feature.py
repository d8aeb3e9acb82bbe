"""The seam between the core and its features.

The core answers requests, and knows no feature. A feature is a class in a list. Its method `attach` receives a
`Replica`, and returns `Parts`: everything that the feature adds. Features do not import each other.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware as ServerMiddleware
from fastmcp.tools import FunctionTool
from mcp.server.subscriptions import SubscriptionBus
from prometheus_client.registry import Collector
from starlette.middleware import Middleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from anyreplica.auth.authentication import Challenge, RequestCheck, TokenSource
from anyreplica.auth.caller import PublicKeys
from anyreplica.auth.own_authentication import OwnAuthentication
from anyreplica.components.containment import AsyncFunction
from anyreplica.components.discovery import Discovered
from anyreplica.components.marks import Check
from anyreplica.http.access_log import AccessLog, Write
from anyreplica.http.request_limits import Limiter, Observe, RequestLimits
from anyreplica.http.request_record import quiet_paths
from anyreplica.http.uvicorn.connections import Connections
from anyreplica.mcp.call import Call, HandshakeSessions
from anyreplica.mcp.catalogue import Catalogue
from anyreplica.mcp.server_setup import ServerSetup
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.process.logs import LogBuffer
from anyreplica.settings import CoreSettings
from anyreplica.shared.peers import Peers

if TYPE_CHECKING:
    from redis.asyncio import Redis


class Position(IntEnum):
    """The position of a middleware. A request passes the positions in this order.

    Middleware of one position runs in the order of the features.

    Example:

        from anyreplica import Parts, Position

        parts = Parts(middleware=[(Position.BEFORE_AUTHENTICATION, lambda app: app)])
    """

    OUTERMOST = 0
    """Before the access log. The log then contains what the middleware sets, for example the id of a trace."""
    BEFORE_AUTHENTICATION = 1
    """After the access log and CORS. The caller is unknown here."""
    NEXT_TO_AUTHENTICATION = 2
    """Directly before the authentication. The middleware of logins is here."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a feature attaches to a replica.

    Attributes:
        middleware: Functions that put a middleware around an app, each with its position.
        routes: Routes that need authentication. The author's own routes come before them.
        first_routes: Routes that need no authentication, and that come before the author's own.
        open_routes: Routes that need no authentication.
        quiet: Paths whose requests are neither logged nor counted. Pages or probes request these paths again and again.
        limiter: The limiter of the rates of callers.
        on_message: Functions to call with the params of each message.
        on_call: Functions to call with the params of each request, before a tool gets them and may change them.
        public_keys: The public keys with which signatures are checked.
        tokens: Sources of callers by their tokens. Each of them is asked until one knows the token.
        request_checks: Checks that find the caller of a request by more than a token.
        challenges: What a reply with status 401 tells the client. Only the first challenge is used.
        exact: Apps by their exact path. They check their callers themselves: of all middleware, only CORS, the access
            log and that of `Position.OUTERMOST` comes before them. A route of the author with the same path replaces
            them.
        observers: Functions that the access log calls after each request, except probes and metrics.
        collectors: Collectors of metrics. They must not wait.
        refresh: Coroutine functions that fetch the values of collectors before the metrics are read.
        checks: Checks of `/health/deep`.
        open_first: Context managers that open before the lifespans of the components, and close after them.
        running: Context managers that are open while the replica serves.
        on_drain: Functions that are called when the drain begins.
        on_stop: Functions that are called after the drain. They end streams that would never end otherwise.
        sessions: The sessions of handshake-protocol clients. If several features attach sessions, the first ones count.

    Example:

        from anyreplica import Parts

        def drained() -> None:
            print("This replica gets no new requests.")

        parts = Parts(on_drain=[drained])
    """

    middleware: Sequence[tuple[Position, Callable[[ASGIApp], ASGIApp]]] = ()
    routes: Sequence[BaseRoute] = ()
    first_routes: Sequence[BaseRoute] = ()
    open_routes: Sequence[BaseRoute] = ()
    quiet: Sequence[str] = ()
    limiter: Limiter | None = None
    on_message: Sequence[Observe] = ()
    on_call: Sequence[Observe] = ()
    public_keys: Sequence[PublicKeys] = ()
    tokens: Sequence[TokenSource] = ()
    request_checks: Sequence[RequestCheck] = ()
    challenges: Sequence[Challenge] = ()
    exact: Mapping[str, ASGIApp] = field(default_factory=dict)
    observers: Sequence[Write] = ()
    collectors: Sequence[Collector] = ()
    refresh: Sequence[Callable[[], Awaitable[None]]] = ()
    checks: Sequence[Check] = ()
    open_first: Sequence[AbstractAsyncContextManager[Any]] = ()
    running: Sequence[AbstractAsyncContextManager[Any]] = ()
    on_drain: Sequence[Callable[[], None]] = ()
    on_stop: Sequence[Callable[[], None]] = ()
    sessions: HandshakeSessions | None = None


@dataclass(frozen=True, kw_only=True)
class Replica:
    """What a feature may use of its replica.

    Attributes:
        settings: The settings.
        name: The name of the replica.
        mcp: The server with its components.
        components: What was found in the component packs.
        redis: The Redis that the replicas share; None without REDIS_URL.
        peers: The other replicas.
        lifecycle: The state of the replica: it starts, is ready, or drains.
        limits: The limits of requests, memory and bodies.
        connections: The open connections.
        tool_paths: Returns how the replica answers each tool, by the name of the tool.
        bus: The events of changed lists and resources, from all replicas. None: there are none.
        answer: Answers a call, as FastMCP does.
        writes: Functions that the access log calls after each request. They are complete when the replica serves.
        is_trial: Whether the replica answers no calls and must leave no traces. `check` starts such a replica, and
            an app whose lifespan nobody has run is one.
        parts: What the features attach. It is complete when the replica serves.

    Example:

        from anyreplica import Feature, Parts, Replica

        class Name(Feature):
            def attach(self, replica: Replica) -> Parts:
                print(f"This is replica {replica.name}.")
                return Parts()
    """

    settings: CoreSettings
    name: str
    mcp: FastMCP
    components: Discovered
    redis: "Redis | None"
    peers: Peers
    lifecycle: Lifecycle
    limits: RequestLimits
    connections: Connections
    tool_paths: Callable[[], Mapping[str, str]]
    bus: SubscriptionBus | None
    answer: Callable[[Call], Awaitable[None]]
    writes: list[Write] = field(default_factory=list)
    is_trial: bool = False
    parts: list[Parts] = field(default_factory=list)

    def attached(self, kind: str) -> list[Any]:
        """Return what all features attach of one kind, for example all `routes`."""
        return [each for parts in self.parts for each in getattr(parts, kind)]

    @property
    def is_guarded(self) -> bool:
        """Whether callers must authenticate. Read it when the replica serves."""
        return bool(self.attached("tokens") or self.attached("request_checks"))

    def logged(self, app: ASGIApp) -> ASGIApp:
        """Put the access log around an app. Call this method when the replica serves."""
        return AccessLog(app, self.name, self.writes, quiet_paths(self.settings) | set(self.attached("quiet")))

    def wrap(self, app: ASGIApp, position: Position) -> ASGIApp:
        """Put the middleware of a position around an app. The middleware of the first feature is the outermost."""
        for at, wrap in reversed(self.attached("middleware")):
            if at is position:
                app = wrap(app)
        return app


class Feature:
    """A feature of a replica or a worker. A process makes one object of it.

    Each method has a default, so a feature defines only what it needs. Pass it to `create_app` as `features=[…]`.

    Example:

        from fastmcp import FastMCP

        from anyreplica import Feature, Parts, Replica, create_app

        class Goodbye(Feature):
            def attach(self, replica: Replica) -> Parts:
                return Parts(on_stop=[lambda: print(f"{replica.name} stops.")])

        app = create_app(FastMCP("my-server"), features=[Goodbye])
    """

    def __init__(self, settings: CoreSettings) -> None:
        self.settings = settings

    def check(self) -> None:
        """Check files, URLs and packages that the settings name, without a connection to anything.

        A single replica does not call this method, so `attach` must check, too.

        Raises:
            StartupError: One of them is not valid.
        """

    def check_worker(self) -> None:
        """Check what a worker uses of the settings, see `check`.

        Raises:
            StartupError: Something is not valid.
        """

    def add_tools(self, mcp: FastMCP, components: Discovered) -> None:
        """Add tools to a server that serves nobody, so that a command can list them. `attach` adds them itself.

        Raises:
            StartupError: A component is not valid.
        """

    def wrap_tool(self, tool: FunctionTool, function: AsyncFunction) -> AsyncFunction:
        """Return the function that runs when a tool is called.

        Raises:
            ValueError: The tool is not valid.
        """
        return function

    def mcp_middleware(self) -> Sequence[ServerMiddleware]:
        """Return FastMCP middleware. It runs first, and the time limit of a call holds for each call that it makes."""
        return ()

    def check_server(self, mcp: FastMCP, components: Discovered, replicas: int) -> None:
        """Check whether so many replicas can serve a server, and the components that were found.

        Raises:
            StartupError: They cannot, or a component is not valid.
        """

    def attach(self, replica: Replica) -> Parts:
        """Return what the replica gets from this feature. A process may call this more than once.

        Raises:
            StartupError: A setting or a component is not valid.
        """
        return Parts()

    def in_worker(self, name: str) -> Sequence[AbstractAsyncContextManager[Any]]:
        """Return what runs in a worker process, which runs jobs and serves nobody. `name` is the name of the process.

        Raises:
            StartupError: A setting is not valid.
        """
        return ()


@dataclass(frozen=True, kw_only=True)
class PreparedServer:
    """A server whose components are found and prepared. Nothing of it has started."""

    mcp: FastMCP
    settings: CoreSettings
    components: Discovered
    setup: ServerSetup
    catalogue: Catalogue
    buffer: LogBuffer
    features: Sequence[Feature]
    middleware: Sequence[Middleware]
    own_authentication: OwnAuthentication
    routes: Sequence[BaseRoute]
    state: Mapping[str, object]
    """Values that the routes of the author find in `request.app.state`."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Enter the lifespans of the components, such as database connections, and leave them at the end."""
        async with AsyncExitStack() as stack:
            for lifespan in self.components.lifespans:
                await stack.enter_async_context(lifespan())
            yield
