"""A server with a login, whose names under `slow.example` resolve slowly: `python -m tests.auth.login.slow_names`.

Its variables are those of `tests.auth.login.server`, and `LOOKUPS`: a file that gets a line for each slow lookup.
"""

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from fastmcp import FastMCP

from anyreplica import App, Settings, app_factory, main
from anyreplica import create_app as create
from tests.auth.login.server import provider

SECONDS = 40.0
"""Time that a lookup takes. It is longer than the test."""

_resolve = socket.getaddrinfo


def _slowly(host: Any, *arguments: Any, **named: Any) -> Any:
    if isinstance(host, str) and host.endswith("slow.example"):
        with Path(os.environ["LOOKUPS"]).open("a") as lookups:
            lookups.write(f"{host}\n")
        time.sleep(SECONDS)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")
    return _resolve(host, *arguments, **named)


def large() -> str:
    """Return a text that is compressed in a thread."""
    return "large " * 50_000


@app_factory
def create_app() -> App:
    """Create the app of one replica."""
    socket.getaddrinfo = _slowly
    settings = Settings.load()
    mcp = FastMCP(settings.mcp_name, auth=provider("proxy", settings.public_url))
    mcp.tool(large)
    return create(mcp, settings)


if __name__ == "__main__":
    sys.exit(main(app="tests.auth.login.slow_names:create_app"))
