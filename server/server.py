"""The ASGI app of this server; any ASGI server can run it, such as `uvicorn --factory server.server:create_app`.

A request passes these parts in this order: tracing, access log, CORS, audit log, authentication, your middleware. Then
it reaches a route: `/mcp`, `/jobs`, `/healthz`, `/readyz`, `/health/deep`, `/metrics`, `/version`, `/` or your own.
"""

from anyreplica import App, app_factory
from anyreplica import create_app as create

from server.config import Settings
from server.mcp_app import create_mcp


@app_factory
def create_app() -> App:
    """Create the app of one replica."""
    settings = Settings.load()
    return create(
        create_mcp(settings),
        settings,
        middleware=[],  # Your middleware, outermost first: starlette.middleware.Middleware(YourMiddleware, option=1)
        routes=[],  # Your routes: starlette.routing.Route("/hello", hello)
        features=[],  # Your features: subclasses of anyreplica.Feature
    )
