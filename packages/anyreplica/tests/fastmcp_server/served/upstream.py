"""Another MCP server, behind the proxy of the first one."""

import asyncio

from fastmcp import Context, FastMCP

mcp = FastMCP("upstream")
arrived = asyncio.Event()


@mcp.tool
def far_away(place: str, ctx: Context) -> dict[str, str]:
    """Return a place and the name of the server."""
    return {"place": place, "server": ctx.fastmcp.name}


@mcp.tool
async def journey(ctx: Context) -> str:
    """Report the departure, and wait for the arrival."""
    arrived.clear()
    await ctx.report_progress(1, 2)
    await arrived.wait()
    return "arrived"


@mcp.tool
def arrive() -> None:
    """End the journey."""
    arrived.set()


@mcp.resource("far://{place}")
def place(place: str) -> str:
    """Describe a place."""
    return f"{place} is far away"


@mcp.prompt
def travel(place: str) -> str:
    """Plan a journey."""
    return f"How do I get to {place}?"
