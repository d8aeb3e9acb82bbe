"""The same server with a tool that hides other tools from its session."""

from fastmcp import Context

from tests.fastmcp_server.served.server import mcp


@mcp.tool
async def hide_tool(name: str, ctx: Context) -> str:
    """Hide a tool from this session."""
    await ctx.disable_components(names={name}, components={"tool"})
    return name


__all__ = ["mcp"]
