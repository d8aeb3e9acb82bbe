"""Tools whose calls also appear in the metrics of the cache and of downstream requests."""

from fastmcp.tools import tool

from mcp_swarm import downstream


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def remembered(number: int) -> int:
    """Return a number. The result is cached."""
    return number


@tool
async def unreachable() -> str:
    """Send a request to an API that does not exist."""
    return (await downstream.get("http://127.0.0.1:9/")).text
