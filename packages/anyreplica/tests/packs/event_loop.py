"""A tool that needs the event loop of asyncio, like a tool that calls `nest_asyncio.apply()`."""

import asyncio

from fastmcp.tools import tool


@tool
async def selector() -> str:
    """Return the class of the loop's selector. Only a loop of asyncio has one."""
    return type(asyncio.get_running_loop()._selector).__name__  # type: ignore[attr-defined]
