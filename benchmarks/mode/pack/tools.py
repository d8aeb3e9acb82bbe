"""Two echoes."""

import asyncio

from fastmcp.tools import tool


@tool
async def echo(message: str) -> str:
    """Give a message back.

    Args:
        message: Any text.
    """
    return message


@tool
async def echo_later(message: str) -> str:
    """Give a message back after 100 ms, which take no CPU.

    Args:
        message: Any text.
    """
    await asyncio.sleep(0.1)
    return message
