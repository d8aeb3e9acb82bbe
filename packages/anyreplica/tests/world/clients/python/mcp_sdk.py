"""The client of the official SDK."""

from typing import Any

import httpx2
from conversation import ADA, converse
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect."""

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(f"{progress:g}/{total:g}")

    async def answer(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=ADA)

    async def call(tool: str, arguments: dict[str, Any]) -> str:
        result = await client.call_tool(tool, arguments, progress_callback=report)
        return result.content[0].text

    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), elicitation_callback=answer) as client,
    ):
        yield [tool.name for tool in (await client.list_tools()).tools], call


converse(connect, progress=True, asked=True)
