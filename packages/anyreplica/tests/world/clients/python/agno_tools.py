"""Agno."""

from typing import Any

from agno.tools.function import FunctionCall
from agno.tools.mcp import MCPTools
from conversation import converse


async def connect(url: str, headers: dict[str, str], reports: list[str]) -> Any:
    """Connect."""

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        done = await FunctionCall(function=tools.functions[tool], arguments=arguments).aexecute()
        return done.error or getattr(done.result, "content", done.result)

    async with MCPTools(url=url, transport="streamable-http", headers=headers, timeout_seconds=60) as tools:
        if not tools.initialized:
            raise ConnectionError("not connected; the log says why")
        yield list(tools.functions), call


converse(connect)
