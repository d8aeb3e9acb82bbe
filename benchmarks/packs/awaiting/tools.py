"""A tool that is suspended once, as one is that waits for a database."""

import asyncio

from fastmcp.tools import tool


@tool
async def awaiting(message: str) -> str:
    """Give a message back, in the event loop's next turn.

    Args:
        message: Any text.
    """
    await asyncio.sleep(0)
    return message
