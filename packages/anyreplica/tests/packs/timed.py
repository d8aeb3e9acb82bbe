"""Tools that take a given time, and a tool that ends the process."""

import asyncio
import os

from fastmcp import Context
from fastmcp.tools import tool

_begun = 0


def _begin() -> None:
    global _begun  # noqa: PLW0603
    _begun += 1


@tool
async def begun() -> int:
    """Return the number of calls that this replica has started."""
    return _begun


@tool
async def take(seconds: float) -> str:
    """Take the given time."""
    _begin()
    await asyncio.sleep(seconds)
    return f"took {seconds:g} s"


@tool
async def report_and_take(seconds: float, ctx: Context) -> str:
    """Report progress, then take the given time."""
    _begin()
    await ctx.report_progress(1, 2, "half of it")
    await asyncio.sleep(seconds)
    return f"took {seconds:g} s"


@tool
async def end(code: int) -> str:
    """End the process at once, like a crash or a signal that cannot be caught."""
    os._exit(code)
