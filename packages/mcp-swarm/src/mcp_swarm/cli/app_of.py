"""Import the app that a command is about."""

import importlib
import os
import sys

from mcp_swarm.app import App
from mcp_swarm.process.start import refusing
from mcp_swarm.settings import doubts, misspelt
from mcp_swarm.settings.errors import StartupError


def app_of(factory: str, replicas: int = 1) -> App:
    """Make the app by a `module:function`, and warn of each setting that has no effect or is seldom meant.

    Raises:
        StartupError: there is no such function, or it can't make an app.
    """
    module, _, name = factory.partition(":")
    with refusing():
        try:
            make = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):  # another module, which this one imports
                raise
            raise StartupError(f"--app {factory}: {error}") from error
        if make is None:
            raise StartupError(f"--app {factory}: there is no {name!r} in {module}")
        app = getattr(make, "__wrapped__", make)()
    if not isinstance(app, App):
        raise StartupError(f"--app {factory}: it returns {type(app).__name__}, and not what create_app makes")
    replicas = max(replicas, app.settings.mcp_replicas)
    for sentence in (*misspelt(os.environ, app.settings), *doubts(app.settings, replicas)):
        print(f"Warning: {sentence}", file=sys.stderr)
    return app
