"""Tools that publish change events."""

from fastmcp.tools import tool
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged

from anyreplica.shared.publish import publish


@tool
async def test_trigger_prompt_change() -> str:
    """Notify all subscribers that the list of prompts has changed."""
    await publish(PromptsListChanged())
    return "Told."


@tool
async def test_trigger_tool_change() -> str:
    """Notify all subscribers that the list of tools has changed."""
    await publish(ToolsListChanged())
    return "Told."
