"""Tests of arguments that do not fit: the error names the known ones, and two settings make a replica lenient."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ArgTransform

from tests.calls import VERSION
from tests.mcp.paths.asked import HANDSHAKE, called
from tests.mcp.paths.both import Pair
from tests.mcp.paths.looks import Looks


def _server() -> FastMCP:
    """Return a server with a tool, a version of it with other names, and a mounted tool without arguments."""
    mcp: FastMCP = FastMCP("arguments")
    inner: FastMCP = FastMCP("inner")

    @mcp.tool
    async def takes(
        items: list[str], options: dict[str, Any] | None = None, note: str | list[str] = "", any_value: Any = None
    ) -> str:
        """Return the arguments as JSON."""
        return json.dumps([items, options, note, any_value])

    @inner.tool
    def nothing() -> str:
        """Take nothing."""
        return "null"

    mcp.add_tool(Tool.from_tool(takes, name="renamed", transform_args={"items": ArgTransform(name="things")}))
    mcp.mount(inner, namespace="inner")
    return mcp


_KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "default, without middleware": {},
    "drops": {"drop_unknown_arguments": True},
    "parses": {"parse_json_arguments": True, "max_body_values": 1000},
}


@pytest.fixture(scope="module")
def pairs() -> Iterator[dict[str, list[Pair]]]:
    """Servers with each of the settings, without and with middleware."""
    with ExitStack() as opened:
        yield {
            kind: [
                opened.enter_context(closing(Pair(*middleware, make=_server, **settings)))
                for middleware in (((),) if "without" in kind else ((), (Looks,)))
            ]
            for kind, settings in _KINDS.items()
        }


_NAMES = "Known arguments: items, options, note, any_value"
_N8N = {"sessionId": "s", "action": "a", "chatInput": "c", "toolCallId": "t"}
_MANY = {f"n{number}": 1 for number in range(20)}


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize(
    ("kind", "tool", "given", "expected"),
    [
        ("default", "takes", {"items": ["a"], "x": 1}, _NAMES),
        ("default", "takes", {"x": 1}, _NAMES),
        ("default, without middleware", "takes", {"items": ["a"], **_MANY}, _NAMES),
        ("default", "takes", {"items": 1}, "valid list"),
        ("default", "takes", {"items": '["a"]'}, "valid list"),
        ("default", "inner_nothing", {"x": 1}, "There are no arguments"),
        ("drops", "takes", {"items": ["a"], **_N8N}, [["a"], None, "", None]),
        ("drops", "takes", {"items": ["a"], **_MANY}, [["a"], None, "", None]),
        ("drops", "takes", _N8N, "Missing required argument"),
        ("drops", "renamed", {"things": ["a"], **_N8N}, [["a"], None, "", None]),
        ("drops", "inner_nothing", _N8N, None),
        ("drops", "takes", {"items": '["a"]'}, "valid list"),
        ("parses", "takes", {"items": ' ["a", "[1]"]'}, [["a", "[1]"], None, "", None]),
        ("parses", "renamed", {"things": '["a"]'}, [["a"], None, "", None]),
        ("parses", "takes", {"items": [], "options": '{"a": [1]}'}, [[], {"a": [1]}, "", None]),
        ("parses", "takes", {"items": [], "note": '["a"]'}, [[], None, '["a"]', None]),
        ("parses", "takes", {"items": [], "any_value": '["a"]'}, [[], None, "", '["a"]']),
        ("parses", "takes", {"items": '{"a": 1}'}, "valid list"),
        ("parses", "takes", {"items": '["a"'}, "valid list"),
        ("parses", "takes", {"items": ["a"], "x": 1}, _NAMES),
        ("parses", "takes", {"items": json.dumps([""] * 500), "options": json.dumps({"a": [""] * 600})}, 413),
    ],
)
def test_arguments_that_do_not_fit(
    pairs: dict[str, list[Pair]], kind: str, tool: str, given: dict[str, Any], expected: Any, version: str
) -> None:
    """All paths give the same result or the same error, without and with middleware. An integer is an HTTP status."""
    for pair in pairs[kind]:
        answer = pair.check(called(tool, given, version))
        if isinstance(expected, int):
            assert answer.status == expected
            continue
        result = answer.message["result"]
        if result["isError"]:
            assert expected in result["content"][0]["text"]
        else:
            assert json.loads(result["content"][0]["text"]) == expected
