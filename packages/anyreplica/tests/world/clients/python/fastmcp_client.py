"""FastMCP's client."""

from typing import Any

from conversation import ADA, converse
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect."""

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(f"{progress:g}/{total:g}")

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return ADA

    async def call(tool: str, arguments: dict[str, Any]) -> str:
        result = await client.call_tool(tool, arguments, progress_handler=report, raise_on_error=False)
        return result.content[0].text

    async with Client(StreamableHttpTransport(url, headers=headers), elicitation_handler=answer) as client:
        yield [tool.name for tool in await client.list_tools()], call


converse(connect, progress=True, asked=True)
