"""The server of this repository in its next version, for tests of an update."""

import sys

from fastmcp import FastMCP

from anyreplica import App, app_factory, create_app, main
from server.config import Settings

VERSION = "0.2.0"


@app_factory
def create_next() -> App:
    """Create the app of one replica of the next version."""
    settings = Settings.load()
    return create_app(FastMCP(settings.mcp_name, version=VERSION), settings)


if __name__ == "__main__":
    sys.exit(main(app="tests.console.next_version:create_next"))
