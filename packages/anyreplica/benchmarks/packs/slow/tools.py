"""Tools that wait without CPU time, like tools that call another service."""

import asyncio

from fastmcp.tools import tool


@tool
async def slow(message: str) -> str:
    """Return the message after 10 ms.

    Args:
        message: Any text.
    """
    await asyncio.sleep(0.01)
    return message


@tool
async def very_slow(message: str) -> str:
    """Return the message after 100 ms.

    Args:
        message: Any text.
    """
    await asyncio.sleep(0.1)
    return message
