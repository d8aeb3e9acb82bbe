"""A tool whose cached results all callers share."""

from fastmcp.tools import tool


@tool(meta={"cache": {"ttl": 3600, "scope": "public"}})
async def cached(message: str) -> str:
    """Return the message.

    Args:
        message: Any text.
    """
    return message
