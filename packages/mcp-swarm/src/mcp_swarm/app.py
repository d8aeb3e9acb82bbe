"""The ASGI app of one replica: which middleware and routes there are, and in which order a request passes them."""

import functools
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any, TypeVar

from fastmcp import FastMCP
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_swarm import downstream
from mcp_swarm.audit.middleware import Trail, audit_log, noting
from mcp_swarm.auth.authentication import Entrance
from mcp_swarm.components.cache.metrics import Caching
from mcp_swarm.components.cache.shared_results import Shared
from mcp_swarm.downstream.metrics import Downstream
from mcp_swarm.http.access_lines import access_lines
from mcp_swarm.http.access_log import AccessLog
from mcp_swarm.http.admission import Admission
from mcp_swarm.http.body import Body
from mcp_swarm.http.cors import Cors
from mcp_swarm.http.in_flight import InFlight
from mcp_swarm.http.memory import Memory
from mcp_swarm.http.uvicorn import limits
from mcp_swarm.http.uvicorn.connections import KEY, Connections
from mcp_swarm.jobs.metrics import Queue
from mcp_swarm.jobs.service import Desk
from mcp_swarm.mcp.alone import AloneOnly
from mcp_swarm.mcp.components import Catalogue, McpApp, offer_jobs, serve_components
from mcp_swarm.mcp.endpoint import Exchange
from mcp_swarm.mcp.paths import open_lanes
from mcp_swarm.mcp.sdk_endpoint import Delegate
from mcp_swarm.mcp.sharing import sharing
from mcp_swarm.mcp.stateless import forget_sessions
from mcp_swarm.mcp.warm_up import warm_up
from mcp_swarm.metrics.lag import Lag
from mcp_swarm.metrics.page import metrics_route
from mcp_swarm.metrics.replica import Replica
from mcp_swarm.metrics.requests import Requests
from mcp_swarm.process import garbage_collector, logs
from mcp_swarm.process.lifecycle import Lifecycle
from mcp_swarm.process.replica import EXIT_REFUSED, end_regardless, process_lifespan, replica_name
from mcp_swarm.process.start import StartReport, refusing
from mcp_swarm.ratelimit.limiter import Gate, gate
from mcp_swarm.routes.deep import Deep, needed
from mcp_swarm.routes.health import health_routes
from mcp_swarm.routes.home import home_route
from mcp_swarm.routes.jobs import JobRoutes
from mcp_swarm.routes.paths import Paths
from mcp_swarm.routes.version import version_route
from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError
from mcp_swarm.tracing.parent import untraced
from mcp_swarm.tracing.tracing import tracing
from mcp_swarm.worker import worker_app

logger = logging.getLogger(__name__)

Lifespan = Callable[[], AbstractAsyncContextManager[object]]
"""Opens what an author's components need, and closes it when the process ends."""

F = TypeVar("F", bound=Callable[[], ASGIApp])


def app_factory(function: F) -> F:
    """Make a function that an ASGI server calls say in one line why a start fails, and exit with code 3.

    Example:

        @app_factory
        def create_app() -> App:
            settings = Settings.load()
            return mcp_swarm.create_app(create_mcp(settings), settings)
    """

    @functools.wraps(function)
    def create() -> ASGIApp:
        try:
            with refusing():
                return function()
        except StartupError as error:
            print(error, file=sys.stderr)  # noqa: T201
            sys.exit(EXIT_REFUSED)

    create.__wrapped__ = function
    return create  # type: ignore[return-value]


def create_app(
    mcp: FastMCP,
    settings: Settings | None = None,
    *,
    middleware: Sequence[Middleware] = (),
    routes: Sequence[BaseRoute] = (),
    lifespan: Lifespan | None = None,
) -> "App":
    """Make the app of a replica. Call it once in a process: it sets up logging for all of it.

    Args:
        mcp: the server. What `MCP_COMPONENTS` names is added to it.
        settings: None reads them from the environment and from secrets.
        middleware: yours, outermost first. Requests that reach it have passed the access log, CORS, the audit log and
            authentication.
        routes: yours, beside `/mcp` and the others of this package. They pass authentication, too.
        lifespan: opened before the first request and closed after the last, in replicas and in workers.

    Raises:
        StartupError: a setting, a component or a file can't be used.
    """
    settings = settings or Settings.load()
    replica = replica_name(settings)
    buffer = logs.configure(settings, replica)
    limits.allow_files(settings.max_connections)
    return App(mcp, settings, serve_components(mcp, settings), buffer, middleware, routes, lifespan)


class App:
    """The ASGI app of a replica, as `create_app` makes it.

    Attributes:
        mcp: the server, with all components that were found.
        settings: what it was made with.
        catalogue: what it offers, for people.
    """

    def __init__(
        self,
        mcp: FastMCP,
        settings: Settings,
        components: McpApp,
        buffer: logs.LogBuffer,
        middleware: Sequence[Middleware],
        routes: Sequence[BaseRoute],
        lifespan: Lifespan | None,
    ) -> None:
        self.mcp = mcp
        self.settings = settings
        self.components = components
        self.buffer = buffer
        self._lifespan = lifespan
        self._middleware = middleware
        self._routes = routes
        self._replica: ASGIApp | None = None

    @property
    def catalogue(self) -> Catalogue:
        """What it offers, for people."""
        return self.components.catalogue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or take part in the server's lifespan."""
        if self._replica is None:  # the first call is the lifespan's
            await StartReport(self._begin)(scope, receive, send)
        else:
            await self._replica(scope, receive, send)

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        lifecycle = Lifecycle(self.settings.drain_seconds, end_regardless)
        self._replica = self.compose(lifecycle, process_lifespan(self.settings, lifecycle))
        await self._replica(scope, receive, send)

    def worker(self) -> ASGIApp:
        """The app of a worker's process, which runs the jobs.

        Raises:
            StartupError: there are no jobs, or nothing that a worker could take them from.
        """
        return worker_app(self.components.jobs, self.settings, self.buffer, self.opened)

    def opened(self) -> AbstractAsyncContextManager[object]:
        """The author's lifespan."""
        return self._lifespan() if self._lifespan is not None else nullcontext()

    def compose(self, lifecycle: Lifecycle, around: AbstractAsyncContextManager[None], *, audited: bool = True) -> ASGIApp:
        """Put the replica together.

        When the app starts, it enters `around`, freezes the objects that there are for Python's garbage collector, and
        sets the collector's thresholds.

        Args:
            lifecycle: gets what is to end when the replica drains or stops.
            around: entered before the first request and left after the last.
            audited: whether to write the audit log.
        """
        settings, mcp, components, buffer = self.settings, self.mcp, self.components, self.buffer
        replica = replica_name(settings)
        share = sharing(settings, mcp, replica)
        if share.subscriptions is not None:
            lifecycle.at_stop.append(share.subscriptions.close)
        connections = Connections(limits.of(settings))
        lifecycle.at_drain.append(connections.drain)
        desk = Desk(components.jobs, settings, replica, lifecycle.cut)
        offer_jobs(mcp, desk, settings)
        if desk.jobs and desk.off:
            logger.warning("No jobs are offered: %s", desk.off)
        AloneOnly(settings, mcp, desk, share)
        limiter = gate(settings, share.redis, replica, share.peers)
        traced = tracing(settings, replica)  # ahead of the paths, which look once whether calls are traced
        in_flight = InFlight(settings.max_in_flight), InFlight(settings.max_in_flight)
        body = _body(settings)
        endpoint, opened, paths = _endpoint(settings, mcp, components, lifecycle.at_stop, limiter, in_flight[0], body)
        authentication = Entrance(settings, share.redis, body)
        audit = audit_log(settings, replica) if audited else None
        components.cache.shared = Shared(share.redis, settings.mcp_name) if share.redis is not None else None
        downstream.configure(settings)
        lag, requests = Lag(), Requests(paths, lambda: lifecycle.state == "draining")
        state = Replica(replica, lifecycle, in_flight, connections, limiter.fleet if limiter else None, share.peers)
        told = requests, lag, state, Caching(components.cache), Downstream()
        metrics = metrics_route(told, Queue(desk), settings.metrics_token)

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
            async with AsyncExitStack() as stack:
                enter = stack.enter_async_context
                for each in (share.running(), authentication.running(), downstream.closing(), self.opened(), opened()):
                    await enter(each)
                if settings.stateless_http:  # else each of its requests would open a session
                    with untraced():
                        await warm_up(endpoint)
                garbage_collector.settle()
                await enter(around)
                for part in (traced, limiter, audit, desk, lag):
                    if part is not None:
                        await enter(part.running())
                await enter(garbage_collector.trimming())
                yield {KEY: connections}

        inner = Starlette(
            routes=[
                version_route(settings.mcp_name, replica, lifecycle, paths, guarded=settings.auth_enabled),
                *health_routes(lifecycle),
                Deep([*needed(share.redis, desk), *components.checks]).route(),
                *JobRoutes(desk, _admission(settings), body, in_flight[1], limiter).routes(),
                *authentication.routes(),
                metrics,
                home_route(settings.mcp_name, replica, None if settings.auth_enabled else components.catalogue),
                *self._routes,
            ],
            lifespan=lifespan,
            middleware=[Middleware(GZipMiddleware, settings.compress_min_bytes, 1)] if settings.compress_min_bytes else [],
        )
        inner.router.redirect_slashes = False  # it would send callers to whatever Host they named
        app: ASGIApp = Paths({"/mcp": endpoint, "/mcp/": endpoint}, inner)
        for cls, args, kwargs in reversed(self._middleware):
            app = cls(app, *args, **kwargs)
        app, write = authentication.guard(app), requests.counting(access_lines(settings, replica, buffer))
        if audit is not None:
            app, write = Trail(app, audit), noting(audit, write)
        if settings.metrics_token:  # which is asked for there, not a caller's key
            app = Paths({metrics.path: metrics.handle}, app)
        if settings.cors_origins:
            app = Cors(app, settings.cors_origins)
        app = AccessLog(app, replica, write)
        return traced.around(app) if traced else app


def _admission(settings: Settings) -> Admission:
    origins = (*settings.allowed_origins, *settings.cors_origins)
    return Admission(settings.allowed_hosts, origins, only_post=settings.stateless_http)


def _body(settings: Settings) -> Body:
    arriving = InFlight(settings.max_in_flight, "bodies are arriving (MAX_IN_FLIGHT)")
    memory = Memory(settings.max_buffered_bytes)
    seconds = settings.receive_timeout_seconds
    return Body(settings.max_body_bytes, seconds, settings.max_body_values, arriving, memory)


def _endpoint(
    settings: Settings,
    mcp: FastMCP,
    components: McpApp,
    at_stop: list[Callable[[], None]],
    limiter: Gate | None,
    in_flight: InFlight,
    body: Body,
) -> tuple[ASGIApp, Callable[[], AbstractAsyncContextManager[Any]], Callable[[], Mapping[str, str]]]:
    """The endpoint of `/mcp`, what to keep open while it serves, and the path of each tool.

    Args:
        at_stop: what is called when the replica stops; the endpoint may add to it.
        limiter: bounds each caller's calls.
        in_flight: counts those that are answered.
        body: reads bodies.
    """
    admission = _admission(settings)
    subscriptions = InFlight(settings.subscriptions, "subscriptions (MAX_SUBSCRIPTIONS)")
    if settings.stateless_http:
        forget_sessions(mcp)
    if settings.stateless_http and settings.json_response != "false":
        streams = settings.json_response == "auto"
        endpoint = Exchange(admission, body, in_flight, subscriptions, limiter, streams=streams)

        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            async with open_lanes(mcp, settings.call_timeout_seconds, components.timeouts) as endpoint.lanes:
                yield

        return endpoint, opened, lambda: endpoint.lanes.plans.lanes
    inner = mcp.http_app(
        path="/mcp",
        stateless_http=settings.stateless_http,
        json_response=settings.json_response != "false",
        host_origin_protection=False,  # looked at already
    )
    delegate = Delegate(inner, admission, body, in_flight, subscriptions, limiter, stateless=settings.stateless_http)
    asked = "STATELESS_HTTP=false" if not settings.stateless_http else "JSON_RESPONSE=false"
    at_stop.append(delegate.stop)
    paths = {tool.name: f"the SDK's own: {asked}" for tool in components.catalogue.tools}
    return delegate, lambda: inner.lifespan(inner), lambda: paths
