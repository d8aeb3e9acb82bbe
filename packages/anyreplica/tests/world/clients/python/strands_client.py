"""Strands Agents."""

from typing import Any

from conversation import ADA, converse
from mcp.types import ElicitResult
from strands.tools.mcp import MCPClient


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect."""

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(f"{progress:g}/{total:g}")

    async def answer(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=ADA)

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        return (await client.call_tool_async("1", tool, arguments))["content"][0]["text"]

    with MCPClient(url=url, headers=headers, progress_callback=report, elicitation_callback=answer) as client:
        yield [tool.tool_name for tool in client.list_tools_sync()], call


converse(connect, progress=True, asked=True)
