"""smolagents, by way of mcpadapt."""

import asyncio
from typing import Any

from conversation import converse
from smolagents import MCPClient


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect. The tools are synchronous."""

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        return await asyncio.to_thread(tools[tool].forward, **arguments)

    server = {"url": url, "headers": headers, "transport": "streamable-http"}
    limit = {"connect_timeout": 20}  # without a valid key, it waits for as long
    opened = await asyncio.to_thread(MCPClient, server, limit, structured_output=False)
    try:
        tools = {tool.name: tool for tool in opened.get_tools()}
        yield list(tools), call
    finally:
        await asyncio.to_thread(opened.disconnect)


converse(connect)
