"""The app of the worker that `mcp-swarm run --replicas` starts beside its replicas."""

from starlette.types import ASGIApp

from mcp_swarm.app import app_factory
from mcp_swarm.cli import source


@app_factory
def create() -> ASGIApp:
    """Create the app of the worker, from the server that the command line names."""
    app = source.create.__wrapped__()  # type: ignore[attr-defined]  # its errors are reported here
    return app.worker()  # type: ignore[no-any-return]
