"""The ASGI app: routes, and the rooms that every request passes, in order."""

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from server import __version__, config, logs
from server.config import Settings
from server.errors import StartupError
from server.exchange.endpoint import Exchange
from server.exchange.warm_up import warm_up
from server.lifecycle import Lifecycle
from server.mcp_app import McpApp, build
from server.middleware.access_log import AccessLog
from server.middleware.guard import Guard
from server.middleware.served_by import ServedBy
from server.replica import EXIT_REFUSED, name_of, process_lifespan
from server.routes.health import health_routes
from server.routes.home import home_route
from server.routes.version import version_route

logger = logging.getLogger(__name__)


def app() -> ASGIApp:
    """What uvicorn serves; called once in each replica's process, which it makes its own (logging, signals)."""
    try:
        settings = config.load()
        logs.configure(settings, name_of(settings))
        mcp_app = build(settings)
        logger.info(
            "%s %s, replica %s: %s", settings.mcp_name, __version__, name_of(settings), mcp_app.catalogue.counts
        )
        lifecycle = Lifecycle(settings.drain_seconds)
        return create_app(settings, mcp_app, lifecycle, process_lifespan(settings, lifecycle))
    except StartupError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(EXIT_REFUSED)


def create_app(
    settings: Settings,
    mcp_app: McpApp,
    lifecycle: Lifecycle,
    around: AbstractAsyncContextManager[None],
) -> ASGIApp:
    """Compose the server. Nothing outside of the returned app is touched.

    Args:
        around: entered before the first request and left after the last.
    """
    replica = name_of(settings)
    inner = mcp_app.mcp.http_app(
        path="/mcp",
        stateless_http=settings.stateless_http,
        json_response=settings.json_response,
        host_origin_protection="auto",
        allowed_hosts=list(settings.allowed_hosts) or None,
        allowed_origins=list(settings.allowed_origins),  # None would let every origin through in a container
    )
    exchange = Exchange(inner, stateless=settings.stateless_http, max_body_bytes=settings.max_body_bytes)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with inner.lifespan(inner):
            if settings.stateless_http:  # else each of its requests would open a session
                await warm_up(exchange)
            async with around:
                yield

    routes = Starlette(
        routes=[
            Route("/mcp", exchange, methods=None),
            Route("/mcp/", exchange, methods=None),
            version_route(settings.mcp_name, replica, lifecycle),
            *health_routes(lifecycle),
            home_route(settings.mcp_name, replica, None if settings.auth_enabled else mcp_app.catalogue),
        ],
        lifespan=lifespan,
    )
    routes.router.redirect_slashes = False  # it would send callers to whatever Host they named
    rooms: ASGIApp = routes
    if settings.auth_enabled and settings.auth_token:
        rooms = Guard(rooms, settings.auth_token.get_secret_value(), realm=settings.mcp_name)
    return ServedBy(AccessLog(rooms), replica)
