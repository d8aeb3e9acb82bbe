"""llama-index-tools-mcp."""

from typing import Any

from conversation import converse
from llama_index.core.tools.calling import acall_tool
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect. Each call opens a session of its own."""

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        return (await acall_tool(tools[tool], arguments)).content

    found = await McpToolSpec(BasicMCPClient(url, headers=headers, timeout=60)).to_tool_list_async()
    tools = {tool.metadata.name: tool for tool in found}
    yield list(tools), call


converse(connect)
