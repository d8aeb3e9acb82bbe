"""The composition of a replica: the core, its features, and the order in which a request passes them."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica._version import __version__
from anyreplica.auth.authentication import Authentication
from anyreplica.auth.client_identity import ClientIdentities
from anyreplica.components.marks import Check
from anyreplica.feature import Parts, Position, PreparedServer, Replica
from anyreplica.http.access_log import access_lines
from anyreplica.http.cors import cors
from anyreplica.http.request_limits import RequestLimits
from anyreplica.http.request_record import mcp_paths
from anyreplica.http.responses import StandardOnly, by_path
from anyreplica.http.trace_context import untraced
from anyreplica.http.uvicorn.connections import KEY, Connections
from anyreplica.mcp.catalogue import title_of, version_of
from anyreplica.mcp.compat import mounts
from anyreplica.mcp.compat.forwarding import refuse_credentials
from anyreplica.mcp.compat.state_store import StateStore
from anyreplica.mcp.endpoint import McpEndpoint
from anyreplica.mcp.lenient import endpoint_class
from anyreplica.mcp.sdk_components import log_notes
from anyreplica.mcp.server_setup import Sharing, own_work, warm_up
from anyreplica.process.lifecycle import Lifecycle, NotStartedError
from anyreplica.process.replica import replica_name
from anyreplica.routes.custom import arrange, open_requests, paths_of, refuse_needed_paths
from anyreplica.routes.health import DeepHealth, health_routes
from anyreplica.routes.home import home_route, version_route
from anyreplica.shared.session_state import RedisState, StateLimits

logger = logging.getLogger(__name__)

_REDIS_SECONDS = 2.0
"""Time limit for the check of Redis in `/health/deep`, in seconds."""


def compose(
    server: PreparedServer, lifecycle: Lifecycle, around: AbstractAsyncContextManager[None], *, is_trial: bool = False
) -> ASGIApp:
    """Return the ASGI app of a replica.

    Args:
        server: The server.
        lifecycle: The life of the replica.
        around: A context manager, entered before the first request and left after the last request.
        is_trial: See `Replica`.

    Raises:
        StartupError: A setting or a component is not valid.
    """
    settings, name = server.settings, replica_name(server.settings)
    share, connections = Sharing(settings, server.mcp, name), Connections(settings)
    limits = RequestLimits(settings, ClientIdentities(settings.trusted_proxies).of)
    log_notes(server.mcp, settings)
    endpoint = endpoint_class(settings)(server.setup, settings, limits)
    replica = Replica(
        settings=settings,
        name=name,
        mcp=server.mcp,
        components=server.components,
        redis=share.redis,
        peers=share.peers,
        lifecycle=lifecycle,
        limits=limits,
        connections=connections,
        tool_paths=endpoint.tool_paths,
        bus=share.bus,
        answer=endpoint.answer_by_fallback,
        is_trial=is_trial,
    )
    replica.parts.append(_own_parts(share, connections))
    for feature in server.features:
        replica.parts.append(feature.attach(replica))
    _use_sessions(server, replica, endpoint)
    limits.on_message, limits.on_call = replica.attached("on_message"), replica.attached("on_call")
    if limiter := next((parts.limiter for parts in replica.parts if parts.limiter is not None), None):
        limits.use(limiter)
    lifecycle.on_drain.extend(replica.attached("on_drain"))
    lifecycle.on_stop.extend(replica.attached("on_stop"))
    callers = (replica.attached(each) for each in ("tokens", "request_checks", "challenges"))
    authentication = Authentication(settings, *callers)
    if authentication.required:  # a feature of the author may be the reason
        refuse_credentials(settings)
    lifespan = _lifespan(server, replica, share, endpoint, around)
    app = _routed(server, replica, endpoint, authentication, lifespan)
    return _surrounded(app, server, replica, authentication)


def _own_parts(share: Sharing, connections: Connections) -> Parts:
    """Return what the core attaches before the features."""
    redis = share.redis
    return Parts(
        checks=[] if redis is None else [Check("redis", redis.ping, _REDIS_SECONDS)],
        on_drain=[connections.drain],
        on_stop=[share.close_streams],
    )


def _use_sessions(server: PreparedServer, replica: Replica, endpoint: McpEndpoint) -> None:
    """Let the endpoint use the sessions that a feature attaches, and choose the store of their state."""
    endpoint.sessions = next((parts.sessions for parts in replica.parts if parts.sessions is not None), None)
    settings, sessions = server.settings, endpoint.sessions
    keeps_state = sessions is not None and sessions.keeps_state
    limits = StateLimits(settings.session_state_bytes)
    shared = None if replica.redis is None else RedisState(replica.redis, settings.mcp_name, limits)
    state = StateStore(limits, shared, settings.trusted_proxies, keeps_state=keeps_state)
    server.setup.store_state(state, keeps_state=keeps_state)
    if sessions is not None and sessions.keeps_state:
        sessions.on_end.append(state.end_session)


def _lifespan(
    server: PreparedServer,
    replica: Replica,
    share: Sharing,
    endpoint: McpEndpoint,
    around: AbstractAsyncContextManager[None],
) -> Callable[[Starlette], AbstractAsyncContextManager[dict[str, Any]]]:
    """Return the lifespan of the replica."""
    settings, mcp, catalogue = server.settings, server.mcp, server.catalogue

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            stack.enter_context(replica.lifecycle.ending())  # entered first, so that it ends after everything else
            for each in (share.running(), *replica.attached("open_first"), server.opened()):
                await enter(each)
            await enter(endpoint.opened())
            with untraced(), own_work():
                listed = await catalogue.read(mcp, asks=replica.is_trial)
            title = title_of(settings.mcp_name, mcp)
            logger.info("%s (anyreplica %s), replica %s: %s", title, __version__, replica.name, catalogue.counts)
            if listed:
                with untraced(), own_work():
                    await warm_up(endpoint, settings.mcp_path, mcp)
            await enter(around)
            for each in replica.attached("running"):
                await enter(each)
            replica.lifecycle.has_started = True
            yield {KEY: replica.connections}

    return lifespan


def _routed(
    server: PreparedServer,
    replica: Replica,
    endpoint: McpEndpoint,
    authentication: Authentication,
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[dict[str, Any]]],
) -> ASGIApp:
    """Return the app of all routes, without the middleware before them."""
    settings = server.settings
    custom = mounts.custom_routes(server.mcp)
    arranged = {id(route) for route in server.routes}  # a server's own http_app may choose the order of custom routes
    author = [*(route for route in custom if id(route) not in arranged), *server.routes]
    refuse_needed_paths(author, settings)
    probes = health_routes(replica.lifecycle, settings)
    first = [*probes, *replica.attached("first_routes")]
    is_guarded = authentication.required
    open_ = [
        version_route(settings.mcp_name, replica.name, replica.lifecycle, endpoint.tool_paths, guarded=is_guarded),
        Route("/health", probes[0].endpoint),
        *replica.attached("open_routes"),
        home_route(settings, replica.name, version_of(server.mcp), None if is_guarded else server.catalogue),
    ]
    deep = DeepHealth([*replica.attached("checks"), *server.components.checks]).route()
    routes = arrange(first, author, [deep, *replica.attached("routes"), *open_])
    public = [] if settings.protect_custom_routes else custom
    # The author's own middleware may answer at paths without a route. Requests for these paths need authentication.
    authentication.is_open = open_requests(routes, [*first, *public, *open_], unknown=not server.middleware)
    smallest = settings.compress_min_bytes
    gzip = [Middleware(GZipMiddleware, smallest, 1)] if smallest else []
    inner = Starlette(routes=routes, lifespan=lifespan, middleware=gzip)
    # FastMCP's consent page shows the name of the server, and routes like those of its component manager ask here
    # whether the server needs a token.
    inner.state.fastmcp_server, inner.state.fastmcp_auth = server.mcp, authentication.provider(server.mcp.auth)
    inner.state.path, inner.state.transport_type = settings.mcp_path, "streamable-http"
    for key, value in server.state.items():
        setattr(inner.state, key, value)
    inner.router.redirect_slashes = False  # a redirect would use the Host header, which the client chooses
    at_mcp: ASGIApp = _not_started if replica.is_trial else endpoint
    return by_path(dict.fromkeys(mcp_paths(settings), at_mcp), inner, smallest)


async def _not_started(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Refuse a request for the endpoint, because nobody has run the lifespan of the app."""
    raise NotStartedError


def _has_own_middleware(server: PreparedServer, replica: Replica) -> bool:
    """Return whether features of the server's author have middleware, which may set `scope["user"]`."""
    _, *attached = replica.parts  # the first ones are those of the core
    pairs = zip(server.features, attached, strict=True)
    return any(parts.middleware and not type(each).__module__.startswith("anyreplica.") for each, parts in pairs)


def _surrounded(app: ASGIApp, server: PreparedServer, replica: Replica, authentication: Authentication) -> ASGIApp:
    """Put the middleware around the routes, innermost first."""
    settings = server.settings
    has_own = _has_own_middleware(server, replica)
    if server.own_authentication.possible or has_own:
        app = server.own_authentication.inside(app)
    for cls, args, kwargs in reversed(server.middleware):
        app = cls(app, *args, **kwargs)
    app = authentication.guard(StandardOnly(app) if server.middleware else app)
    app = replica.wrap(app, Position.NEXT_TO_AUTHENTICATION)
    if has_own and authentication.required:  # the authentication replaces the user that such middleware has set
        app = server.own_authentication.outside(app)
    app = replica.wrap(app, Position.BEFORE_AUTHENTICATION)
    replaced = paths_of(mounts.custom_routes(server.mcp), server.routes)
    exact = {path: other for each in replica.parts for path, other in each.exact.items() if path not in replaced}
    if exact:
        app = by_path(exact, app)
    if settings.cors_origins:
        app = cors(app, settings.cors_origins)
    replica.writes.extend([access_lines(settings, replica.name, server.buffer), *replica.attached("observers")])
    return replica.wrap(replica.logged(app), Position.OUTERMOST)
