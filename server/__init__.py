"""An MCP server whose replicas are identical: any of them answers any request."""

import gc
import os

# FastMCP's own log handler would print beside ours. It reads this when it is first imported, whoever does that.
os.environ.setdefault("FASTMCP_LOG_ENABLED", "false")

# The imports make half a million objects that stay; looking through them again and again takes a third of the start.
# `server.collector` sets what is right for serving.
gc.set_threshold(100_000, 50, 1000)

__version__ = "0.1.0"
