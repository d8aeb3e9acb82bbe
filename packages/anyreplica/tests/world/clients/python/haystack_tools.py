"""mcp-haystack: tools of Haystack."""

import asyncio
from typing import Any

from conversation import converse
from haystack_integrations.tools.mcp import MCPToolset, StreamableHttpServerInfo


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect. The tools are synchronous."""

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        return await asyncio.to_thread(tools[tool].invoke, **arguments)

    toolset = MCPToolset(StreamableHttpServerInfo(url=url, headers=headers), connection_timeout=60)
    try:
        await asyncio.to_thread(toolset.warm_up)
        tools = {tool.name: tool for tool in toolset}
        yield list(tools), call
    finally:
        toolset.close()


converse(connect)
