"""Microsoft's Agent Framework, the successor of AutoGen and Semantic Kernel."""

from typing import Any

from agent_framework import MCPStreamableHTTPTool
from agent_framework.exceptions import ToolExecutionException
from conversation import converse


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect."""

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        try:
            content = await tools[tool].invoke(arguments=arguments)
        except ToolExecutionException as error:  # an agent sends its text to the model
            return str(error)
        return " ".join(getattr(each, "text", None) or str(each) for each in content)

    async with MCPStreamableHTTPTool("calculator", url, static_headers=headers, load_prompts=False) as server:
        tools = {tool.name: tool for tool in server.functions}
        yield list(tools), call


converse(connect)
