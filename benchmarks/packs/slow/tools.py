"""A tool that takes 10 ms and no CPU, as one does that asks another service."""

import asyncio

from fastmcp.tools import tool


@tool
async def slow(message: str) -> str:
    """Give a message back after 10 ms.

    Args:
        message: Any text.
    """
    await asyncio.sleep(0.01)
    return message
