"""Google's Agent Development Kit."""

from typing import Any
from unittest.mock import MagicMock

from conversation import ADA, converse
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from mcp.types import ElicitResult


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect."""

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(f"{progress:g}/{total:g}")

    async def answer(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=ADA)

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        return await tools[tool].run_async(args=arguments, tool_context=MagicMock())

    toolset = McpToolset(
        connection_params=StreamableHTTPConnectionParams(url=url, headers=headers, timeout=60),
        progress_callback=report,
        elicitation_callback=answer,
    )
    try:
        tools = {tool.name: tool for tool in await toolset.get_tools()}
        yield list(tools), call
    finally:
        await toolset.close()


converse(connect, progress=True, asked=True)
