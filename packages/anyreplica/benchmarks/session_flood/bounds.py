"""This project's server with another limit of sessions than the MCP SDK's default.

`python -m benchmarks.session_flood.bounds` serves as `python -m server` does. `SESSIONS_MOST` is the maximum number of
sessions; `none`: no limit. Beyond the limit, the SDK's session manager answers 503. FastMCP has no setting for the
limit.
"""

import os
import sys
from typing import Any
from unittest.mock import patch

from fastmcp.server import http

from anyreplica.cli.main import main


class Sessions(http.FastMCPStreamableHTTPSessionManager):
    """FastMCP's session manager with another limit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        most = os.environ["SESSIONS_MOST"]
        self.max_sessions = None if most == "none" else int(most)


if __name__ == "__main__":
    with patch.object(http, "FastMCPStreamableHTTPSessionManager", Sessions):
        sys.exit(main([]))
