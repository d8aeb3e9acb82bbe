"""The ASGI app of one replica, from its creation to its end."""

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar

from fastmcp import FastMCP
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from starlette.middleware import Middleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica.all_settings import Settings
from anyreplica.auth.own_authentication import OwnAuthentication
from anyreplica.built_in import FIRST, LAST
from anyreplica.components.importing import MARK
from anyreplica.compose import compose
from anyreplica.feature import Feature, PreparedServer
from anyreplica.http.uvicorn.connections import allow_files
from anyreplica.mcp.catalogue import Catalogue
from anyreplica.mcp.compat import contexts, mounts, shared_dependencies, state_store
from anyreplica.mcp.compat.forwarding import forward_only
from anyreplica.mcp.compat.http_app import added_by_http_app
from anyreplica.mcp.compat.masking import note_choices
from anyreplica.mcp.compat.sdk_server import as_fastmcp
from anyreplica.mcp.components import serve_components
from anyreplica.process import logs
from anyreplica.process.lifecycle import Lifecycle, NotStartedError, end_regardless, run_lifespan
from anyreplica.process.replica import process_lifespan, replica_name
from anyreplica.process.start import EXIT_REFUSED, StartReport, print_reason, refusing
from anyreplica.settings.errors import StartupError

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
                note_choices()
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
    features: Sequence[type[Feature]] = (),
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
        features: Your own features. A replica gets them after those of this package, but before the metrics.

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
    note_choices()  # of the servers that components make
    settings = settings or Settings.load()
    buffer = logs.configure(settings, replica_name(settings))
    allow_files(settings.max_connections)
    mcp = as_fastmcp(mcp)
    added = added_by_http_app(mcp, settings.mcp_path)
    attached = [feature(settings) for feature in (*FIRST, *features, *LAST)]
    wraps = [each.wrap_tool for each in attached]
    own_middleware = [each for feature in attached for each in feature.mcp_middleware()]
    components, setup = serve_components(mcp, settings, wraps, own_middleware)
    for feature in attached:
        feature.check_server(mcp, components, settings.planned)
    contexts.serve_over_http(mcp)
    shared_dependencies.set_scope()
    mounts.search_without_tasks()
    state_store.skip_empty_state()
    all_middleware = (*added.middleware, *middleware)
    own_authentication = OwnAuthentication(all_middleware, settings.request_state_ring)
    forward_only(mcp, settings, own_authentication.possible)
    return App(
        settings,
        PreparedServer(
            mcp=mcp,
            settings=settings,
            components=components,
            setup=setup,
            catalogue=Catalogue.of(mounts.local_components(mcp), components.jobs),
            buffer=buffer,
            features=attached,
            middleware=all_middleware,
            own_authentication=own_authentication,
            routes=(*added.routes, *routes),
            state=added.state,
        ),
    )


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

    def __init__(self, settings: Settings, server: PreparedServer) -> None:
        self.mcp = server.mcp
        self.settings = settings
        self.components = server.components
        self.catalogue = server.catalogue
        self.features = server.features
        self.server = server
        self.replica_app: ASGIApp | None = None
        """What answers the requests, after the start. Our HTTP server calls it directly."""
        self._unstarted: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or handle the lifespan of the ASGI server.

        Before the lifespan, only custom routes and the routes of a login answer, as with FastMCP's app.

        Raises:
            NotStartedError: A request for the MCP endpoint came before the lifespan.
        """
        if "user" in scope:  # an app around this one has authenticated the caller
            self.server.own_authentication.identify(scope)
        if self.replica_app is not None:
            await self.replica_app(scope, receive, send)
        elif scope["type"] == "lifespan":
            scope.setdefault("state", {})  # Starlette needs it, and some ASGI servers do not offer it
            await StartReport(self._begin)(scope, receive, send)
        else:
            await self._before_start()(scope, receive, send)

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
        return run_lifespan(self)

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        lifecycle = Lifecycle(self.settings.drain_seconds, end_regardless)
        self.replica_app = self.compose(lifecycle, process_lifespan(self.settings, lifecycle))
        await self.replica_app(scope, receive, send)

    def _before_start(self) -> ASGIApp:
        """Return the app that answers requests before the lifespan. Without a lifespan, nothing uses Redis or a file.

        Raises:
            NotStartedError: The settings name a Redis or an audit log.
        """
        if self.settings.redis_url or self.settings.audit_log:
            raise NotStartedError
        if self._unstarted is None:
            self._unstarted = self.compose(Lifecycle(self.settings.drain_seconds), nullcontext(), is_trial=True)
        return self._unstarted

    def worker(self) -> ASGIApp:
        """Return the app of a worker process. A worker runs the jobs.

        Raises:
            StartupError: The server has no jobs and no tools with `task=True`, or `JOBS_URL` names no queue that a
                worker can use.
        """
        from anyreplica.features.jobs.worker_app import worker_app  # noqa: PLC0415  # only a worker needs it

        return worker_app(self.server, self.settings)

    def compose(
        self, lifecycle: Lifecycle, around: AbstractAsyncContextManager[None], *, is_trial: bool = False
    ) -> ASGIApp:
        """Return the ASGI app of the replica. See `anyreplica.compose`."""
        return compose(self.server, lifecycle, around, is_trial=is_trial)
