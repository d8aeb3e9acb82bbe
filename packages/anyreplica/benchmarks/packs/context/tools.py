"""A tool with a `Context`."""

from fastmcp import Context
from fastmcp.tools import tool


@tool
async def with_context(message: str, ctx: Context) -> str:
    """Return the message and the request's id.

    Args:
        message: Any text.
    """
    return f"{message} {ctx.request_id}"
