"""A tool that says something before its result, so that its reply is an event stream that the client can resume."""

from fastmcp import Context
from fastmcp.tools import tool


@tool
async def chat(ctx: Context) -> str:
    """Log a line and return."""
    await ctx.info("one moment")
    return "done"
