"""CrewAI."""

import asyncio
from typing import Any

from conversation import converse
from crewai.mcp import MCPServerHTTP
from crewai.mcp.tool_resolver import MCPToolResolver
from crewai.utilities.logger import Logger


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect. The tools are synchronous, and each call opens a session of its own."""

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        done = await asyncio.to_thread(tools[tool].run, **arguments)
        return getattr(done, "message", done)

    resolver = MCPToolResolver(agent=None, logger=Logger())
    found = await asyncio.to_thread(resolver.resolve, [MCPServerHTTP(url=url, headers=headers)])
    if not found:
        raise ConnectionError("not connected; the log says why")
    tools = {tool.original_tool_name: tool for tool in found}
    yield list(tools), call
    resolver.cleanup()


converse(connect)
