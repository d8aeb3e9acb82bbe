"""The ASGI app of one replica: its middleware and routes, in the order in which a request passes them."""

import functools
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any, TypeVar

from fastmcp import FastMCP
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica import downstream
from anyreplica._version import __version__
from anyreplica.audit.log import AuditLog
from anyreplica.audit.middleware import AuditMiddleware, audit_log, noting
from anyreplica.auth.authentication import Authentication
from anyreplica.auth.caller import caller_token
from anyreplica.auth.client_identity import ClientIdentities
from anyreplica.auth.login.configured import check_login, login_of
from anyreplica.components.cache.metrics import CacheMetrics
from anyreplica.components.cache.shared_results import SharedResults
from anyreplica.components.discovery import Discovered
from anyreplica.components.marks import MARK
from anyreplica.downstream.metrics import DownstreamMetrics
from anyreplica.http.access_log import AccessLog, Write, access_lines
from anyreplica.http.cors import cors
from anyreplica.http.headers import path_of
from anyreplica.http.intake import Intake
from anyreplica.http.paths import mcp_paths, quiet_paths
from anyreplica.http.responses import WHOLE, StandardOnly
from anyreplica.http.uvicorn.connections import KEY, Connections, allow_files
from anyreplica.jobs.metrics import QueueMetrics
from anyreplica.jobs.service import JobService
from anyreplica.mcp import _mounts, _sdk, _shared_dependencies
from anyreplica.mcp._forwarding import forward_only
from anyreplica.mcp._overrides import added_by_http_app
from anyreplica.mcp._sdk_server import as_fastmcp
from anyreplica.mcp.adoption import Adoption
from anyreplica.mcp.alone import AloneOnly
from anyreplica.mcp.catalogue import Catalogue
from anyreplica.mcp.components import cannot_ask, offer_jobs, serve_components
from anyreplica.mcp.endpoint import McpEndpoint
from anyreplica.mcp.lenient import endpoint_class
from anyreplica.mcp.own_work import own_work
from anyreplica.mcp.sdk_components import log_notes
from anyreplica.mcp.sdk_endpoint import SdkEndpoint
from anyreplica.mcp.server_tasks import offer_tasks, task_tools
from anyreplica.mcp.sharing import Sharing
from anyreplica.mcp.taken_calls import TakenCalls
from anyreplica.mcp.warm_up import warm_up
from anyreplica.metrics.lag import LoopLag
from anyreplica.metrics.page import metrics_route
from anyreplica.metrics.replica import ReplicaMetrics
from anyreplica.metrics.requests import RequestMetrics
from anyreplica.process import logs
from anyreplica.process.exit_codes import EXIT_REFUSED
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.process.log_buffer import LogBuffer
from anyreplica.process.mounted import running
from anyreplica.process.replica import end_regardless, process_lifespan, replica_name
from anyreplica.process.start import StartReport, print_reason, refusing
from anyreplica.ratelimit.limiter import rate_limiter
from anyreplica.routes.custom import arrange, open_requests, paths_of, refuse_needed_paths
from anyreplica.routes.deep import DeepHealth, needed
from anyreplica.routes.health import health_routes
from anyreplica.routes.home import home_route
from anyreplica.routes.jobs import JobRoutes
from anyreplica.routes.version import version_route
from anyreplica.sessions.sessions import Sessions
from anyreplica.sessions.state import SharedState
from anyreplica.settings import Settings
from anyreplica.settings.errors import StartupError
from anyreplica.tracing.middleware import TracingMiddleware
from anyreplica.tracing.parent import untraced
from anyreplica.tracing.tracing import tracing
from anyreplica.worker import worker_app

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[[], ASGIApp])


def app_factory(function: F) -> F:
    """Decorate an app factory for ASGI servers, so that a failed start prints one line and exits with code 3.

    The line says why the start failed.

    Example:

        from fastmcp import FastMCP

        import anyreplica

        @anyreplica.app_factory
        def create_app() -> anyreplica.App:
            return anyreplica.create_app(FastMCP("my-server"))
    """

    @functools.wraps(function)
    def create() -> ASGIApp:
        try:
            with refusing():
                return function()
        except StartupError as error:
            print_reason(error)
            sys.exit(EXIT_REFUSED)

    setattr(create, MARK, "app_factory")
    return create  # type: ignore[return-value]


def create_app(
    mcp: FastMCP | MCPServer[Any] | Server[Any],
    settings: Settings | None = None,
    *,
    middleware: Sequence[Middleware] = (),
    routes: Sequence[BaseRoute] = (),
) -> "App":
    """Create the app of a replica. Call it only once per process, because it configures logging for the whole process.

    Args:
        mcp: The server. The components of the packages in `MCP_COMPONENTS` are added to it. It may also be a server of
            the MCP SDK (`MCPServer` or the low-level `Server`), to which nothing can be added.
        settings: The settings. None: read them from the environment and from secrets.
        middleware: Your own middleware, outermost first. A request passes the access log, CORS, the audit middleware
            and authentication before it reaches your middleware.
        routes: Your own routes, in addition to `/mcp` and the other routes of this package. Their requests pass
            authentication, too.

    Raises:
        StartupError: A setting, a component or a file is invalid.

    Example:

        from fastmcp import FastMCP

        from anyreplica import App, app_factory
        from anyreplica import create_app as create

        @app_factory
        def create_app() -> App:
            return create(FastMCP("my-server"))
    """
    settings = settings or Settings.load()
    buffer = logs.configure(settings, replica_name(settings))
    allow_files(settings.max_connections)
    mcp = as_fastmcp(mcp)
    added, added_routes = added_by_http_app(mcp, settings.mcp_path)
    components, adoption = serve_components(mcp, settings)
    _sdk.serve_over_http(mcp)
    _shared_dependencies.set_scope()
    _mounts.search_without_tasks()
    forward_only(mcp, settings)
    check_login(mcp.auth, settings, settings.mcp_replicas)
    return App(mcp, settings, components, adoption, buffer, (*added, *middleware), (*added_routes, *routes))


class App:
    """The ASGI app of a replica. `create_app` creates it.

    Attributes:
        mcp: The server with all discovered components.
        settings: The settings of the replica.
        catalogue: The components, as a list for people.

    Example:

        from fastmcp import FastMCP

        from anyreplica import App, create_app

        app: App = create_app(FastMCP("my-server"))
        print(app.catalogue)
    """

    def __init__(
        self,
        mcp: FastMCP,
        settings: Settings,
        components: Discovered,
        adoption: Adoption,
        buffer: LogBuffer,
        middleware: Sequence[Middleware],
        routes: Sequence[BaseRoute],
    ) -> None:
        self.mcp = mcp
        self.settings = settings
        self.components = components
        self.adoption = adoption
        self.catalogue = Catalogue.of(_mounts.local_components(mcp), components.jobs)
        self.buffer = buffer
        self._middleware = middleware
        self._routes = routes
        self._replica: ASGIApp | None = None
        self._unstarted: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or handle the lifespan of the ASGI server.

        Before the lifespan, only custom routes and the routes of a login answer, as with FastMCP's app.

        Raises:
            RuntimeError: A request for the MCP endpoint came before the lifespan.
        """
        if self._replica is not None:
            await self._replica(scope, receive, send)
        elif scope["type"] == "lifespan":
            scope.setdefault("state", {})  # Starlette needs it, and some ASGI servers do not offer it
            await StartReport(self._begin)(scope, receive, send)
        else:
            await self._before_start(scope)(scope, receive, send)

    def lifespan(self, _: object = None) -> AbstractAsyncContextManager[None]:
        """Return the lifespan of this app, for an app that mounts it.

        Example:

            from fastmcp import FastMCP
            from starlette.applications import Starlette
            from starlette.routing import Mount

            from anyreplica import create_app

            replica = create_app(FastMCP("my-server"))
            outer = Starlette(routes=[Mount("/api", replica)], lifespan=replica.lifespan)
        """
        return running(self)

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        lifecycle = Lifecycle(self.settings.drain_seconds, end_regardless)
        self._replica = self.compose(lifecycle, process_lifespan(self.settings, lifecycle))
        await self._replica(scope, receive, send)

    def _before_start(self, scope: Scope) -> ASGIApp:
        """Return the app that answers a request before the lifespan. Without a lifespan, nothing uses Redis or a file.

        Raises:
            RuntimeError: The request needs a replica that has started.
        """
        settings = self.settings
        if settings.redis_url or settings.audit_log or path_of(scope) in mcp_paths(settings):
            raise RuntimeError(
                "anyreplica: this app has not started. An app that mounts it must run its lifespan, for example "
                'Starlette(routes=[Mount("/api", app)], lifespan=app.lifespan).'
            )
        if self._unstarted is None:
            self._unstarted = self.compose(Lifecycle(settings.drain_seconds), nullcontext())
        return self._unstarted

    def worker(self) -> ASGIApp:
        """Return the app of a worker process. A worker runs the jobs.

        Raises:
            StartupError: The server has no jobs and no tools with `task=True`, or `JOBS_URL` names no queue that a
                worker can use.
        """
        tasks = task_tools(self.mcp)
        if tasks:
            without_jobs = JobService({}, self.settings, "", lambda: None)
            offer_tasks(self.mcp, without_jobs, self.settings)
        opened = self._opened_with_server if tasks else self.opened
        return worker_app(self.components.jobs, tasks, self.settings, self.buffer, opened)

    @asynccontextmanager
    async def _opened_with_server(self) -> AsyncIterator[None]:
        """Enter the lifespans of the components and of the server, whose tasks extension runs tasks in it."""
        async with self.opened(), _shared_dependencies.lifespan(self.mcp):
            yield

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Enter the lifespans of the components, such as database connections, and leave them at the end."""
        async with AsyncExitStack() as stack:
            for lifespan in self.components.lifespans:
                await stack.enter_async_context(lifespan())
            yield

    def compose(
        self, lifecycle: Lifecycle, around: AbstractAsyncContextManager[None], *, audited: bool = True
    ) -> ASGIApp:
        """Compose the middleware and routes of the replica.

        Args:
            lifecycle: The life of the replica. This method registers the functions that the lifecycle calls at the
                drain and at the stop.
            around: A context manager, entered before the first request and left after the last request.
            audited: Whether the replica writes the audit log.
        """
        settings, mcp, components, buffer = self.settings, self.mcp, self.components, self.buffer
        replica = replica_name(settings)
        share = Sharing(settings, mcp, replica)
        lifecycle.at_stop.append(share.close_streams)
        connections = Connections(settings)
        lifecycle.at_drain.append(connections.drain)
        service = JobService(components.jobs, settings, replica, lifecycle.cut)
        offer_jobs(mcp, service, settings)
        if service.jobs and service.off:
            logger.warning("%s", service.off)
        limiter = rate_limiter(settings, share.redis, replica, share.peers)
        traced = tracing(settings, replica)  # made first, because the endpoint checks only once whether tracing is on
        intake = Intake(settings, limiter, ClientIdentities(settings.trusted_proxies).of)
        service.outside = intake.in_flight.outside
        sessions = self._sessions(share, intake, lifecycle)
        log_notes(mcp, settings)
        AloneOnly(settings, mcp, service, share, sessions)
        endpoint: McpEndpoint | SdkEndpoint
        if settings.stateless_http and settings.json_response != "false":
            shared_state = None if share.redis is None else SharedState(share.redis, settings.mcp_name)
            endpoint = endpoint_class(settings)(self.adoption, settings, intake, sessions, shared_state)
        else:
            endpoint = SdkEndpoint(mcp, settings, self.catalogue, intake)
            lifecycle.at_stop.append(endpoint.stop)
        paths = endpoint.tool_paths
        login = login_of(mcp.auth, settings, share.redis, intake.body)
        authentication = Authentication(settings, share.redis, intake.body, login)
        audit = audit_log(settings, replica) if audited else None
        components.cache.shared = SharedResults(share.redis, settings.mcp_name) if share.redis is not None else None
        downstream.configure(settings, caller_token)
        lag, requests = LoopLag(), RequestMetrics(paths, lambda: lifecycle.state == "draining")
        fleet = limiter.fleet if limiter else None
        state = ReplicaMetrics(replica, lifecycle, intake.in_flight, connections, fleet, share.peers)
        queue = QueueMetrics(service)
        asked = [] if sessions is None else sessions.collectors
        collectors = requests, lag, state, CacheMetrics(components.cache), DownstreamMetrics(), queue, *asked
        metrics = metrics_route(collectors, queue.look, settings.metrics_token, settings.metrics_path)

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
            async with AsyncExitStack() as stack:
                enter = stack.enter_async_context
                stack.enter_context(lifecycle.ending())  # entered first, so that it ends after everything else
                for each in (share.running(), authentication.running(), downstream.closing(), self.opened()):
                    await enter(each)
                await enter(endpoint.opened())
                with untraced(), own_work():
                    listed = await self.catalogue.read(mcp)
                logger.info("%s %s, replica %s: %s", settings.mcp_name, __version__, replica, self.catalogue.counts)
                # With STATELESS_HTTP=false, each request of the warm-up would open a session.
                if listed and settings.stateless_http:
                    with untraced(), own_work():
                        await warm_up(endpoint, settings.mcp_path, mcp)
                await enter(around)
                for part in (traced, limiter, audit, service, sessions, lag):
                    if part is not None:
                        await enter(part.running())
                yield {KEY: connections}

        min_bytes = settings.compress_min_bytes
        custom = _mounts.custom_routes(mcp)
        refuse_needed_paths((*custom, *self._routes), settings)
        probes, login_routes = health_routes(lifecycle, settings), authentication.routes()
        open_ = [
            version_route(settings.mcp_name, replica, lifecycle, paths, guarded=authentication.required),
            Route("/health", probes[0].endpoint),
            home_route(settings, replica, None if authentication.required else self.catalogue),
        ]
        guarded = [
            DeepHealth([*needed(share.redis, service), *components.checks]).route(),
            *JobRoutes(service, intake).routes(),
            metrics,
        ]
        routes = arrange([*probes, *login_routes], [*custom, *self._routes], [*guarded, *open_])
        public = [] if settings.protect_custom_routes else custom
        # The author's own middleware may answer at other paths, and its requests pass authentication.
        authentication.is_open = open_requests(
            routes, [*probes, *login_routes, *public, *open_], unknown=not self._middleware
        )
        inner = Starlette(
            routes=routes,
            lifespan=lifespan,
            middleware=[Middleware(GZipMiddleware, min_bytes, 1)] if min_bytes else [],
        )
        # FastMCP's consent page shows the name of the server, and routes like those of its component manager ask here
        # whether the server needs a token.
        inner.state.fastmcp_server, inner.state.fastmcp_auth = mcp, authentication.provider(mcp.auth)
        inner.state.path, inner.state.transport_type = settings.mcp_path, "streamable-http"
        inner.router.redirect_slashes = False  # a redirect would use the Host header, which the client chooses
        at_mcp: ASGIApp = endpoint
        if min_bytes:
            whole = isinstance(endpoint, McpEndpoint)
            at_mcp = _compressed(endpoint, min_bytes) if whole else GZipMiddleware(StandardOnly(endpoint), min_bytes, 1)
        app: ASGIApp = _by_path(dict.fromkeys(mcp_paths(settings), at_mcp), inner)
        write = requests.counting(access_lines(settings, replica, buffer))
        taken = endpoint.taken if isinstance(endpoint, McpEndpoint) else None
        replaced = settings.metrics_path in paths_of(custom, self._routes)
        app = self._surround(app, taken, authentication, None if replaced else metrics, audit, write)
        return TracingMiddleware(app, settings) if traced else app

    def _sessions(self, share: Sharing, intake: Intake, lifecycle: Lifecycle) -> Sessions | None:
        """Return the sessions of handshake-protocol clients. None: HANDSHAKE_SESSIONS is off."""
        if self.settings.handshake_sessions != "off":
            sessions = Sessions(self.settings, share.redis, intake.in_flight, intake.memory, share.bus)
            lifecycle.at_drain.append(sessions.leave)
            return sessions
        if reason := cannot_ask(self.mcp, self.settings):
            logger.info("%s", reason)
        return None

    def _surround(
        self,
        app: ASGIApp,
        taken: TakenCalls | None,
        authentication: Authentication,
        metrics: Route | None,
        audit: AuditLog | None,
        write: Write,
    ) -> ASGIApp:
        """Put the middleware around the routes, innermost first. Calls that are taken over are logged, too."""
        settings = self.settings
        for cls, args, kwargs in reversed(self._middleware):
            app = cls(app, *args, **kwargs)
        app = authentication.guard(StandardOnly(app) if self._middleware else app)
        if audit is not None:
            app, write = AuditMiddleware(app, audit, settings), noting(audit, write)
        if settings.metrics_token and metrics:  # they then need this token, and a caller's key does not open them
            app = _by_path({metrics.path: metrics.handle}, app)
        if settings.cors_origins:
            app = cors(app, settings.cors_origins)
        replica = replica_name(settings)
        quiet = quiet_paths(settings)
        if taken is not None:
            taken.app = AccessLog(taken, replica, write, quiet)
        return AccessLog(app, replica, write, quiet)


def _compressed(app: ASGIApp, min_bytes: int) -> ASGIApp:
    """Return an app that compresses replies of at least `min_bytes` with gzip.

    If the ASGI server compresses replies itself, as the uvicorn protocol of this package does, the app leaves replies
    unchanged.
    """
    gzip = GZipMiddleware(app, min_bytes, 1)

    def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return (app if WHOLE in scope.get("extensions", ()) else gzip)(scope, receive, send)

    return answer


def _by_path(exact: Mapping[str, ASGIApp], others: ASGIApp) -> ASGIApp:
    """Send a request to the app of its exact path, and every other request to `others`.

    The routing of Starlette would take as much time as a whole call.
    """

    def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return others(scope, receive, send)
        app = exact.get(scope["path"]) or exact.get(path_of(scope), others)
        return app(scope, receive, send)

    return answer
