"""Tools whose calls are to be seen in metrics for more than themselves."""

from fastmcp.tools import tool

from mcp_swarm import downstream


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def remembered(number: int) -> int:
    """Give a number back, from the cache if it was asked for before."""
    return number


@tool
async def unreachable() -> str:
    """Ask an API that isn't there."""
    return (await downstream.get("http://127.0.0.1:9/")).text
