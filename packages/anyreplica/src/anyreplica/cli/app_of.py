"""The app of a command: the server on the command line, with warnings about its settings."""

import os
import sys
from collections.abc import Sequence

from anyreplica.app import App
from anyreplica.cli.source import app_from
from anyreplica.settings import doubts, misspelt


def app_of(server: str, arguments: Sequence[str] = (), replicas: int = 1) -> App:
    """Create the app of a server, and print a warning for each suspicious setting.

    Suspicious settings are names without effect (probably misspelt) and unusual combinations.

    Args:
        server: Where the server is, see `app_from`.
        arguments: The command line of the server's own code.
        replicas: Number of replicas that the command starts.

    Raises:
        StartupError: The server cannot be loaded or served.
    """
    app = app_from(server, arguments)
    replicas = max(replicas, app.settings.mcp_replicas)
    for sentence in (*misspelt(os.environ, app.settings), *doubts(app.settings, replicas)):
        print(f"Warning: {sentence}", file=sys.stderr)
    return app
