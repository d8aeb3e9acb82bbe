"""Tools that say that something changed."""

from fastmcp.tools import tool
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged

from mcp_swarm.shared.publish import publish


@tool
async def test_trigger_prompt_change() -> str:
    """Tell all subscribers that the list of prompts changed."""
    await publish(PromptsListChanged())
    return "Told."


@tool
async def test_trigger_tool_change() -> str:
    """Tell all subscribers that the list of tools changed."""
    await publish(ToolsListChanged())
    return "Told."
