"""Tools whose calls need much memory while their clients wait, or are away."""

import asyncio

from fastmcp import Context
from fastmcp.server.elicitation import AcceptedElicitation
from fastmcp.tools import tool


@tool
async def log_and_repeat(text: str, ctx: Context, times: int = 1) -> str:
    """Log a message, let the client leave, and return the text some times."""
    await ctx.info("begun")
    await asyncio.sleep(0.3)
    return text * times


@tool
async def log_often(text: str, times: int, ctx: Context) -> str:
    """Log a text some times."""
    for number in range(times):
        await ctx.info(f"{number} {text}")
    return "logged"


@tool
async def ask_about(text: str, ctx: Context) -> str:
    """Ask for a name. The text stays in memory until the client answers."""
    answer = await ctx.elicit("What is your name?", str)
    name = answer.data if isinstance(answer, AcceptedElicitation) else answer.action
    return f"{name} knows {len(text)} characters."
