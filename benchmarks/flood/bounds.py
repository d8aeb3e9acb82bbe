"""This project's server with other bounds on its sessions than the MCP SDK's own.

`python -m benchmarks.flood.bounds` serves as `python -m server` does. `SESSIONS_MOST` is how many sessions there may
be, `none` for any number. FastMCP offers no such setting (of the other bound it does:
`FASTMCP_HTTP_SESSION_IDLE_TIMEOUT`), but the SDK's session manager does, which answers 503 beyond it.
"""

import os
import sys
from typing import Any
from unittest.mock import patch

from fastmcp.server import http
from mcp_swarm.cli.main import main


class Sessions(http.FastMCPStreamableHTTPSessionManager):
    """FastMCP's session manager with the number of sessions that is asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        most = os.environ["SESSIONS_MOST"]
        self.max_sessions = None if most == "none" else int(most)


if __name__ == "__main__":
    with patch.object(http, "FastMCPStreamableHTTPSessionManager", Sessions):
        sys.exit(main([]))
