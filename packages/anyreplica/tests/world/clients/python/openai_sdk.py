"""The OpenAI Agents SDK."""

import json
from typing import Any

from agents import Agent, RunContextWrapper
from agents.mcp import MCPServerStreamableHttp
from agents.tool_context import ToolContext
from conversation import converse


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect."""

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        sent = json.dumps(arguments)
        context = ToolContext(context=None, tool_name=tool, tool_call_id="1", tool_arguments=sent)
        return await tools[tool].on_invoke_tool(context, sent)

    async with MCPServerStreamableHttp({"url": url, "headers": headers}, client_session_timeout_seconds=60) as server:
        agent = Agent("calculator", mcp_servers=[server])
        tools = {tool.name: tool for tool in await agent.get_mcp_tools(RunContextWrapper(None))}
        yield list(tools), call


converse(connect)
