"""The app of the worker that `anyreplica run --replicas` starts beside its replicas."""

from starlette.types import ASGIApp

from anyreplica.app import app_factory
from anyreplica.cli import source


@app_factory
def create() -> ASGIApp:
    """Create the app of the worker, from the server that the command line names."""
    app = source.create.__wrapped__()  # type: ignore[attr-defined]  # its errors are reported here
    return app.worker()  # type: ignore[no-any-return]
