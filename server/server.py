"""The ASGI app. Any ASGI server runs it, as: uvicorn --factory server.server:create_app

A request passes, from top to bottom: tracing, access log, CORS, audit log, authentication, your middleware; then
`/mcp`, `/jobs`, `/healthz`, `/readyz`, `/health/deep`, `/metrics`, `/version`, `/` or one of your routes.
"""

from mcp_swarm import App, app_factory
from mcp_swarm import create_app as create

from server.config import Settings
from server.mcp_app import create_mcp


@app_factory
def create_app() -> App:
    """The app of one replica."""
    settings = Settings.load()
    return create(
        create_mcp(settings),
        settings,
        middleware=[],  # yours, outermost first: starlette.middleware.Middleware(YourMiddleware, option=1)
        routes=[],  # yours: starlette.routing.Route("/hello", hello)
    )
