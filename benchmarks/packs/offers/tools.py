"""A plain tool, and one that is given many tasks at once."""

import asyncio

from fastmcp.tools import tool


@tool
async def echo(message: str) -> str:
    """Give a message back.

    Args:
        message: Any text.
    """
    return message


async def _done(task: str) -> str:
    await asyncio.sleep(0)  # each waits for its turn, as it would for a database
    return task.upper()


@tool
async def process(tasks: list[str]) -> list[str]:
    """Do many tasks side by side.

    Args:
        tasks: What is to be done.
    """
    return list(await asyncio.gather(*map(_done, tasks)))
