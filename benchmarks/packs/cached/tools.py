"""A tool whose results are cached, for everybody."""

from fastmcp.tools import tool


@tool(meta={"cache": {"ttl": 3600, "scope": "public"}})
async def cached(message: str) -> str:
    """Give a message back.

    Args:
        message: Any text.
    """
    return message
