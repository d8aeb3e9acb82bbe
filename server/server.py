"""The ASGI app: routes, and the rooms that every request passes, in order."""

import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp

from server import __version__, collector, config, downstream, logs
from server.alone import AloneOnly
from server.audit.trail import Trail, audit_log, noting
from server.cache.shared import Shared
from server.config import Settings
from server.entrance import Entrance
from server.errors import StartupError
from server.exchange import sdk
from server.exchange.admission import Admission
from server.exchange.body import Body
from server.exchange.delegate import Delegate
from server.exchange.endpoint import Exchange
from server.exchange.in_flight import InFlight
from server.exchange.lanes import open_lanes
from server.exchange.memory import Memory
from server.exchange.stateless import forget_sessions
from server.exchange.warm_up import warm_up
from server.http1 import limits
from server.http1.connections import KEY, Connections
from server.lifecycle import Lifecycle
from server.log_buffer import LogBuffer
from server.mcp_app import McpApp, build, offer_jobs
from server.metrics.cache import Caching
from server.metrics.downstream import Downstream
from server.metrics.lag import Lag
from server.metrics.page import metrics_route
from server.metrics.queue import Queue
from server.metrics.replica import Replica
from server.metrics.requests import Requests
from server.middleware.access_lines import access_lines
from server.middleware.access_log import AccessLog
from server.middleware.cors import Cors
from server.rates.gate import Gate, gate
from server.replica import EXIT_REFUSED, end_regardless, name_of, process_lifespan
from server.routes.deep import Deep, needed
from server.routes.health import health_routes
from server.routes.home import home_route
from server.routes.jobs import JobRoutes
from server.routes.paths import Paths
from server.routes.version import version_route
from server.shared.sharing import sharing
from server.start import StartReport, refusing
from server.traces.parent import untraced
from server.traces.tracing import tracing
from server.work.desk import Desk

logger = logging.getLogger(__name__)


def app() -> ASGIApp:
    """What uvicorn serves; called once in each replica's process, which it makes its own (logging, signals)."""
    try:
        with refusing():
            settings = config.load()
            buffer = logs.configure(settings, name_of(settings))
            limits.allow_files(settings.max_connections)
            mcp_app = build(settings)
            sdk.serve_over_http(mcp_app.mcp)
            counts = mcp_app.catalogue.counts
            logger.info("%s %s, replica %s: %s", settings.mcp_name, __version__, name_of(settings), counts)
            lifecycle = Lifecycle(settings.drain_seconds, end_regardless)
            return create_app(settings, mcp_app, lifecycle, process_lifespan(settings, lifecycle), buffer)
    except StartupError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(EXIT_REFUSED)


def create_app(
    settings: Settings,
    mcp_app: McpApp,
    lifecycle: Lifecycle,
    around: AbstractAsyncContextManager[None],
    buffer: LogBuffer,
) -> ASGIApp:
    """Compose the server.

    Besides the returned app, this changes:

    - `mcp_app`: adds the tools of jobs, the tasks extension, the handler of subscriptions, and the shared cache.
    - `lifecycle`: adds what to end when the replica drains or stops.
    - This process: `downstream.configure` sets the limits of calls of APIs, `events.use` says where events go, tracing
      sets OpenTelemetry's tracer provider, and JSON_RESPONSE=false or STATELESS_HTTP=false a flag of sse_starlette.

    When the app starts, it also enters `around`, freezes the objects that there are for Python's garbage collector, and
    sets the collector's thresholds. So compose one app in a process, and give each an `mcp_app` of its own.

    It reads the files of keys that the settings name. It opens no connection and no other file before the app starts.

    Args:
        around: entered before the first request and left after the last.
        buffer: where log lines go.
    """
    replica = name_of(settings)
    share = sharing(settings, mcp_app, replica)
    if share.subscriptions is not None:
        lifecycle.at_stop.append(share.subscriptions.close)
    connections = Connections(limits.of(settings))
    lifecycle.at_drain.append(connections.drain)
    desk = Desk(mcp_app.jobs, settings, replica, lifecycle.cut)
    offer_jobs(mcp_app.mcp, desk, settings)
    if desk.jobs and desk.off:
        logger.warning("No jobs are offered: %s", desk.off)
    AloneOnly(settings, mcp_app.mcp, desk, share)
    door = gate(settings, share.redis, replica, share.peers)
    traced = tracing(settings, replica)  # ahead of the lanes, which look once whether calls are traced
    in_flight = InFlight(settings.max_in_flight), InFlight(settings.max_in_flight)
    body = _body(settings)
    exchange, opened, lanes = _exchange(settings, mcp_app, lifecycle.at_stop, door, in_flight[0], body)
    entrance = Entrance(settings, share.redis, body)
    audit = audit_log(settings, replica)
    mcp_app.cache.shared = Shared(share.redis, settings.mcp_name) if share.redis is not None else None
    downstream.configure(settings)
    lag, requests = Lag(), Requests(lanes, lambda: lifecycle.state == "draining")
    state = Replica(replica, lifecycle, in_flight, connections, door.fleet if door else None, share.peers)
    told = requests, lag, state, Caching(mcp_app.cache), Downstream()
    metrics = metrics_route(told, Queue(desk), settings.metrics_token)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        async with share.running(), entrance.running(), downstream.closing(), opened():
            if settings.stateless_http:  # else each of its requests would open a session
                with untraced():
                    await warm_up(exchange)
            collector.settle()
            bounded, noted = (each.running() if each else nullcontext() for each in (door, audit))
            sent = traced.running() if traced else nullcontext()
            async with around, sent, bounded, noted, desk.running(), lag.running(), collector.trimming():
                yield {KEY: connections}

    jobs = JobRoutes(desk, _admission(settings), body, in_flight[1], door)
    routes = Starlette(
        routes=[
            version_route(settings.mcp_name, replica, lifecycle, lanes, guarded=settings.auth_enabled),
            *health_routes(lifecycle),
            Deep([*needed(share.redis, desk), *mcp_app.checks]).route(),
            *jobs.routes(),
            *entrance.routes(),
            metrics,
            home_route(settings.mcp_name, replica, None if settings.auth_enabled else mcp_app.catalogue),
        ],
        lifespan=lifespan,
        middleware=[Middleware(GZipMiddleware, settings.compress_min_bytes, 1)] if settings.compress_min_bytes else [],
    )
    routes.router.redirect_slashes = False  # it would send callers to whatever Host they named
    rooms: ASGIApp = Paths({"/mcp": exchange, "/mcp/": exchange}, StartReport(routes))
    rooms, write = entrance.guard(rooms), requests.counting(access_lines(settings, replica, buffer))
    if audit is not None:
        rooms, write = Trail(rooms, audit), noting(audit, write)
    if settings.metrics_token:  # which is asked for there, not a caller's key
        rooms = Paths({metrics.path: metrics.handle}, rooms)
    if settings.cors_origins:
        rooms = Cors(rooms, settings.cors_origins)
    served = AccessLog(rooms, replica, write)
    return traced.around(served) if traced else served


def _admission(settings: Settings) -> Admission:
    origins = (*settings.allowed_origins, *settings.cors_origins)
    return Admission(settings.allowed_hosts, origins, only_post=settings.stateless_http)


def _body(settings: Settings) -> Body:
    arriving = InFlight(settings.max_in_flight, "bodies are arriving (MAX_IN_FLIGHT)")
    memory = Memory(settings.max_buffered_bytes)
    seconds = settings.receive_timeout_seconds
    return Body(settings.max_body_bytes, seconds, settings.max_body_values, arriving, memory)


def _exchange(
    settings: Settings,
    mcp_app: McpApp,
    at_stop: list[Callable[[], None]],
    door: Gate | None,
    in_flight: InFlight,
    body: Body,
) -> tuple[ASGIApp, Callable[[], AbstractAsyncContextManager[Any]], Callable[[], Mapping[str, str]]]:
    """The endpoint of `/mcp`, what to keep open while it serves, and the lane of each tool.

    Args:
        at_stop: what is called when the replica stops; the endpoint may add to it.
        door: bounds each caller's calls.
        in_flight: counts those that are answered.
        body: reads bodies.
    """
    admission = _admission(settings)
    mcp = mcp_app.mcp
    subscriptions = InFlight(settings.subscriptions, "subscriptions (MAX_SUBSCRIPTIONS)")
    if settings.stateless_http:
        forget_sessions(mcp)
    if settings.stateless_http and settings.json_response != "false":
        exchange = Exchange(admission, body, in_flight, subscriptions, door, streams=settings.json_response == "auto")

        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            async with open_lanes(mcp, settings.call_timeout_seconds, mcp_app.timeouts) as exchange.lanes:
                yield

        return exchange, opened, lambda: exchange.lanes.plans.lanes
    inner = mcp.http_app(
        path="/mcp",
        stateless_http=settings.stateless_http,
        json_response=settings.json_response != "false",
        host_origin_protection=False,  # looked at already
    )
    delegate = Delegate(inner, admission, body, in_flight, subscriptions, door, stateless=settings.stateless_http)
    asked = "STATELESS_HTTP=false" if not settings.stateless_http else "JSON_RESPONSE=false"
    at_stop.append(delegate.stop)
    lanes = {tool.name: f"the SDK's own: {asked}" for tool in mcp_app.catalogue.tools}
    return delegate, lambda: inner.lifespan(inner), lambda: lanes
