"""The headers that repeat arguments of tools (`x-mcp-header`): a server of the SDK says for each call which exist."""

from collections.abc import Callable
from typing import Any

import mcp_types as mt
import pytest
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from tests.calls import VERSION
from tests.sdk_server.test_equality import answer, both, tool

_SCHEMA = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}
_TOOLS = [mt.Tool(name=name, input_schema=_SCHEMA) for name in ("other", "echo")]
Ctx = ServerRequestContext[Any, Any]


async def call_tool(_: Ctx, params: mt.CallToolRequestParams) -> mt.CallToolResult:
    return mt.CallToolResult(content=[mt.TextContent(type="text", text=str(params.arguments))])


async def pages(_: Ctx, params: mt.PaginatedRequestParams | None) -> mt.ListToolsResult:
    second = params is not None and params.cursor == "2"
    return mt.ListToolsResult(tools=_TOOLS[second:][:1], next_cursor=None if second else "2")


async def endless(_: Ctx, params: mt.PaginatedRequestParams | None) -> mt.ListToolsResult:
    return mt.ListToolsResult(tools=_TOOLS[:1], next_cursor="2")


async def broken(_: Ctx, params: mt.PaginatedRequestParams | None) -> mt.ListToolsResult:
    raise RuntimeError("the list is not available")


def find(name: str) -> dict[str, Any]:
    return {each.name: each.input_schema for each in _TOOLS}[name]


@pytest.mark.parametrize(
    ("options", "checked"),
    [
        ({"on_list_tools": pages}, True),
        ({"on_list_tools": broken, "get_tool_input_schema": find}, True),
        ({"on_list_tools": endless}, False),
        ({"on_list_tools": broken}, False),
        ({"get_tool_input_schema": {}.__getitem__}, False),
        ({}, False),
    ],
)
def test_a_header_is_checked_against_what_the_server_says(options: dict[str, Any], checked: bool) -> None:
    """A header with another value is refused as in the SDK's app. A call goes on if the server's code has failed."""

    def make() -> Server[Any]:
        return Server("headers", on_call_tool=call_tool, **options)

    with both(make) as (ours, theirs):
        for text, status in (("x", 200), ("y", 400 if checked else 200)):
            found, expected = (answer(each, VERSION, *tool("echo", text="x"), text=text) for each in (ours, theirs))
            assert found == expected
            assert found[0] == status


def test_the_list_of_a_call_takes_the_path_of_a_request() -> None:
    """Middleware of the author sees the list and then the call, as in the SDK's app. Without arguments, no list."""
    seen: list[list[str]] = []

    def noting() -> Callable[..., Any]:
        methods: list[str] = []
        seen.append(methods)

        async def note(ctx: Ctx, call_next: Any) -> Any:
            methods.append(ctx.method)
            return await call_next(ctx)

        return note

    def make() -> Server[Any]:
        server = Server[Any]("headers", on_call_tool=call_tool, on_list_tools=pages)
        server.middleware.append(noting())
        return server

    with both(make) as clients:
        for client in clients:
            answer(client, VERSION, *tool("other", text="x"))
    assert [each.count("tools/list") for each in seen] == [1, 1]
    assert [each[-2:] for each in seen] == [["tools/list", "tools/call"]] * 2
