"""langchain-mcp-adapters: tools of LangChain and LangGraph."""

from typing import Any

from conversation import ADA, converse
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect. Each call opens a session of its own."""

    async def report(progress: float, total: float | None, message: str | None, context: Any) -> None:
        reports.append(f"{progress:g}/{total:g}")

    async def answer(mcp_context: Any, params: Any, context: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=ADA)

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        message = await tools[tool].ainvoke({"type": "tool_call", "id": "1", "name": tool, "args": arguments})
        return message.content

    client = MultiServerMCPClient(
        {"calculator": {"transport": "streamable_http", "url": url, "headers": headers}},
        callbacks=Callbacks(on_progress=report, on_elicitation=answer),
    )
    tools = {tool.name: tool for tool in await client.get_tools()}
    yield list(tools), call


converse(connect, progress=True, asked=True)
