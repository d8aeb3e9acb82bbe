"""The FastMCP server with its name and instructions; add mounts, providers and FastMCP middleware here.

Two options of FastMCP are settings: STATELESS_HTTP (default: true) and JSON_RESPONSE (default: auto).
"""

from fastmcp import FastMCP

from server.config import Settings


def create_mcp(settings: Settings) -> FastMCP:
    """Create the FastMCP server; anyreplica adds the components of tools/, resources/, prompts/ and jobs/ later."""
    return FastMCP(
        settings.mcp_name,  # All replicas must have the same name.
        version="0.1.0",
        # instructions="Purpose of this server, and when to use which tool.",
        # middleware=[YourMiddleware()],
        # providers=[…],
    )
