"""The import of the app for a command."""

import importlib
import os
import sys

from mcp_swarm.app import App
from mcp_swarm.auth.login.configured import check_login
from mcp_swarm.process.start import refusing
from mcp_swarm.settings import doubts, misspelt
from mcp_swarm.settings.errors import StartupError


def app_of(factory: str, replicas: int = 1) -> App:
    """Create the app with a factory, and print a warning for each suspicious setting.

    Suspicious settings are names without effect (probably misspelt) and unusual combinations.

    Args:
        factory: The factory as `module:function`.
        replicas: Number of replicas that the command starts.

    Raises:
        StartupError: The factory does not exist, fails, or does not return an app, or so many replicas cannot share the
            login of the server.
    """
    module, _, name = factory.partition(":")
    with refusing():
        try:
            make = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):  # The factory's module exists; one of its imports fails.
                raise
            raise StartupError(f"--app {factory}: {error}") from error
        if make is None:
            raise StartupError(f"--app {factory}: {module} has no function {name!r}")
        app = getattr(make, "__wrapped__", make)()
    if not isinstance(app, App):
        raise StartupError(
            f"--app {factory}: the function must return an App from create_app, not {type(app).__name__}"
        )
    replicas = max(replicas, app.settings.mcp_replicas)
    check_login(app.mcp.auth, app.settings, replicas)
    for sentence in (*misspelt(os.environ, app.settings), *doubts(app.settings, replicas)):
        print(f"Warning: {sentence}", file=sys.stderr)
    return app
