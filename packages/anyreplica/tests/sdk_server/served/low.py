"""A low-level `Server` in the style of the reference servers. `make()` makes a new one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as mt
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

Ctx = ServerRequestContext[Any, Any]

_TOOLS = [
    mt.Tool(
        name=name,
        title=f"The tool {name}",
        description=f"Does {name}.",
        input_schema={"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}},
        _meta={"own": name},
    )
    for name in ("echo", "fail", "crash", "wrong", "ask")
]


class CountParams(mt.RequestParams):
    """The parameters of a method of the server's own."""

    up_to: int


@asynccontextmanager
async def opened(_: Server[Any]) -> AsyncIterator[dict[str, Any]]:
    yield {"greeting": "hello"}


async def list_tools(ctx: Ctx, params: mt.PaginatedRequestParams | None) -> mt.ListToolsResult:
    assert ctx.lifespan_context == {"greeting": "hello"}
    start = int((params and params.cursor) or 0)
    more = str(start + 2) if start + 2 < len(_TOOLS) else None
    return mt.ListToolsResult(tools=_TOOLS[start : start + 2], next_cursor=more)


async def call_tool(ctx: Ctx, params: mt.CallToolRequestParams) -> Any:
    match params.name:
        case "echo":
            text = f"{ctx.lifespan_context['greeting']} {params.arguments}"
            return mt.CallToolResult(content=[mt.TextContent(type="text", text=text)], structured_content={"a": 1})
        case "fail":
            return mt.CallToolResult(content=[mt.TextContent(type="text", text="failed")], is_error=True)
        case "crash":
            raise RuntimeError("a secret")
        case "wrong":
            return {"content": "no list"}
        case "ask":
            asked = {"sure": mt.ElicitRequest(params=mt.ElicitRequestFormParams(message="?", requested_schema={}))}
            if params.request_state == "round 1":
                return mt.CallToolResult(content=[mt.TextContent(type="text", text=str(params.input_responses))])
            return mt.InputRequiredResult(input_requests=asked, request_state="round 1")
        case _:
            raise MCPError(mt.INVALID_PARAMS, f"Unknown tool: {params.name}")


async def read_resource(_: Ctx, params: mt.ReadResourceRequestParams) -> mt.ReadResourceResult:
    if params.uri == "low://crash":
        raise RuntimeError("a secret")
    return mt.ReadResourceResult(contents=[mt.TextResourceContents(uri=params.uri, text="x")])


async def list_prompts(_: Ctx, params: mt.PaginatedRequestParams | None) -> dict[str, Any]:
    return {"prompts": [{"name": "p", "description": "A prompt as plain data."}]}


async def count(_: Ctx, params: CountParams) -> dict[str, Any]:
    return {"numbers": list(range(params.up_to))}


async def note(ctx: Ctx, call_next: CallNext) -> HandlerResult:
    """Refuse a tool. (SDK middleware.)"""
    if ctx.method == "tools/call" and (ctx.params or {}).get("name") == "forbidden":
        raise MCPError(-32005, "forbidden")
    return await call_next(ctx)


def make() -> Server[Any]:
    """Return a new server."""
    server: Server[Any] = Server(
        "low",
        version="2",
        lifespan=opened,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,  # type: ignore[arg-type]  # the SDK accepts plain data, too
    )
    server.add_request_handler("own/count", CountParams, count)
    server.middleware.append(note)
    return server


server = make()
