"""The FastMCP server: its name and instructions, and the place for mounts, providers and FastMCP middleware.

Two options of FastMCP's are settings: STATELESS_HTTP (true) and JSON_RESPONSE (auto).
"""

from fastmcp import FastMCP

from server.config import Settings


def create_mcp(settings: Settings) -> FastMCP:
    """The server. What stands in tools/, resources/, prompts/ and jobs/ is added to it later."""
    return FastMCP(
        settings.mcp_name,  # the same on every replica
        version="0.1.0",
        # instructions="What this server is for, and when to use which tool.",
        # middleware=[YourMiddleware()],
        # providers=[…],
    )
