"""The app of a command: the server on the command line, with warnings about its settings."""

import os
import sys
from collections.abc import Sequence

from anyreplica.all_settings import Settings
from anyreplica.app import App
from anyreplica.cli.source import app_from
from anyreplica.process.start import refusing
from anyreplica.settings import misspelt, of_fastmcp
from anyreplica.shared.redis import connect


def app_of(server: str, arguments: Sequence[str] = ()) -> App:
    """Create the app of a server, and print a warning for each suspicious setting.

    Suspicious settings are names without effect (probably misspelt, or FastMCP's) and unusual combinations.

    Args:
        server: Where the server is, see `app_from`.
        arguments: The command line of the server's own code.

    Raises:
        StartupError: The server cannot be loaded or served.
    """
    app = app_from(server, arguments)
    warn(app.settings)
    return app


def warn(settings: Settings) -> None:
    """Print a warning for each suspicious setting."""
    ignored = of_fastmcp.without_effect(settings)
    for sentence in (*misspelt(os.environ, settings), *ignored, *settings.doubts()):
        print(f"Warning: {sentence}", file=sys.stderr)


def check_files_and_urls(app: App) -> None:
    """Check the files, URLs and packages that the settings of an app name, without a connection to anything.

    Raises:
        StartupError: One of them is not valid.
    """
    with refusing():
        connect(app.settings)  # this only checks the URLs
        for feature in app.features:
            feature.check()
