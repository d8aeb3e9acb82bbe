"""Pydantic AI. An agent with a model that calls the tools in a fixed order."""

from typing import Any

from conversation import ADA, converse
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.mcp import MCPToolset


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect."""

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(f"{progress:g}/{total:g}")

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return ADA

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        try:
            return await toolset.direct_call_tool(tool, arguments)
        except ModelRetry as error:  # an agent sends its text to the model
            return error.message

    async with MCPToolset(url, headers=headers, progress_handler=report, elicitation_handler=answer) as toolset:
        yield [tool.name for tool in await toolset.list_tools()], call


converse(connect, progress=True, asked=True)
