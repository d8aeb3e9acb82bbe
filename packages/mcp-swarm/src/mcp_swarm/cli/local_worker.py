"""The app of the worker that `mcp-swarm run --replicas` starts beside its replicas."""

from starlette.types import ASGIApp
from uvicorn.importer import import_from_string

from mcp_swarm.app import App, app_factory


def create(factory: str) -> ASGIApp:
    """Create the app of the worker.

    Args:
        factory: The factory of the replicas' app, as `module:function`.
    """

    @app_factory
    def worker() -> ASGIApp:
        app: App = import_from_string(factory)()
        return app.worker()

    return worker()
