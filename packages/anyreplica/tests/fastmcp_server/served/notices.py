"""Tools that announce changes."""

from fastmcp import Context, FastMCP
from mcp_types import ResourceUpdatedNotification, ResourceUpdatedNotificationParams

mcp = FastMCP("notices")


@mcp.resource("stock://tea")
def tea() -> str:
    """Return the stock of tea."""
    return "7 boxes"


@mcp.tool
async def lists_changed(ctx: Context) -> None:
    """Announce that all lists have changed."""
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_prompt_list_changed()
    await ctx.session.send_resource_list_changed()


@mcp.tool
async def updated_in_session(uri: str, ctx: Context) -> None:
    """Announce an update of a resource through the session."""
    await ctx.session.send_resource_updated(uri)


@mcp.tool
async def updated(uri: str, ctx: Context) -> None:
    """Announce an update of a resource through the Context."""
    await ctx.send_notification(ResourceUpdatedNotification(params=ResourceUpdatedNotificationParams(uri=uri)))
