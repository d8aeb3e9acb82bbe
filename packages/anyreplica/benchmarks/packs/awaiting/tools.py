"""A tool that gives control to the event loop once, like a tool that waits for a database."""

import asyncio

from fastmcp.tools import tool


@tool
async def awaiting(message: str) -> str:
    """Return the message in the next turn of the event loop.

    Args:
        message: Any text.
    """
    await asyncio.sleep(0)
    return message
