"""An MCP server whose replicas are identical: any of them answers any request."""

import os

# FastMCP's own log handler would print beside ours. It reads this when it is first imported, whoever does that.
os.environ.setdefault("FASTMCP_LOG_ENABLED", "false")

__version__ = "0.1.0"
