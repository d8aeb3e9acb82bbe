"""Tools that need the event loop of asyncio."""

import asyncio

import nest_asyncio  # type: ignore[import-untyped]
from fastmcp.tools import tool


@tool
async def selector() -> str:
    """Return the class of the loop's selector. Only a loop of asyncio has one."""
    return type(asyncio.get_running_loop()._selector).__name__  # type: ignore[attr-defined]


@tool
async def nested(text: str) -> str:
    """Return the text, from a coroutine that runs on the same loop within the call. asyncio refuses this."""
    nest_asyncio.apply()

    async def later() -> str:
        await asyncio.sleep(0.01)
        return text

    # Libraries with a function that is not `async`, and that begins a loop of its own, do this.
    return asyncio.run(later())
