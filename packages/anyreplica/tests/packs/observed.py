"""Tools whose calls also appear in the metrics of the cache, of downstream requests and of requests to clients."""

from fastmcp import Context
from fastmcp.tools import tool

from anyreplica import downstream


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def remembered(number: int) -> int:
    """Return a number. The result is cached."""
    return number


@tool
async def unreachable() -> str:
    """Send a request to an API that does not exist."""
    return (await downstream.get("http://127.0.0.1:9/")).text


@tool
async def agreed(ctx: Context) -> str:
    """Ask for a name and return what the user chose to do."""
    return (await ctx.elicit("What is your name?", str)).action
