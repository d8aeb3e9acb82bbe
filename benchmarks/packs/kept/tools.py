"""A tool whose results are kept, for everybody."""

from fastmcp.tools import tool


@tool(meta={"cache": {"ttl": 3600, "scope": "public"}})
async def kept(message: str) -> str:
    """Give a message back.

    Args:
        message: Any text.
    """
    return message
