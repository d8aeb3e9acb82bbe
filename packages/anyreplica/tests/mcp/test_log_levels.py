"""Tests of the minimum level of log messages: what a session has set, and what the author has chosen."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastmcp import Context, FastMCP

from anyreplica import Settings, create_app
from anyreplica.testing import Client, replica
from tests.calls import BOTH, request

HEADERS = {"Accept": BOTH, "MCP-Protocol-Version": "2025-11-25"}
LEVELS = ("debug", "info", "warning", "error")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


async def says(ctx: Context) -> str:
    """Log one message of each level."""
    for level in LEVELS:
        await ctx.log(level, level=level)  # type: ignore[arg-type]
    return "said"


async def says_in_session(ctx: Context) -> str:
    """Log with the session of the SDK, to which `client_log_level` does not apply."""
    await ctx.session.send_log_message("debug", "debug", related_request_id=ctx.origin_request_id)
    return await says(ctx)


def server(name: str, level: Any) -> FastMCP:
    """Return a server whose tools log."""
    mcp = FastMCP(name, client_log_level=level)
    mcp.tool(says)
    mcp.tool(says_in_session)
    return mcp


def asking(client: Client) -> Callable[..., list[dict[str, Any]]]:
    """Start a session. Return a function that sends a request in it and returns the messages of the reply."""
    session: dict[str, str] = {}

    def ask(method: str, **params: Any) -> list[dict[str, Any]]:
        reply = client.http.post("/mcp", json=request(method, params), headers={**HEADERS, **session})
        assert reply.status_code == 200, reply.text
        if "mcp-session-id" in reply.headers:
            session["Mcp-Session-Id"] = reply.headers["mcp-session-id"]
        lines = reply.text.splitlines()
        events = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")] or [reply.text]
        return [json.loads(event) for event in events]

    ask("initialize", **HELLO)
    return ask


@pytest.mark.parametrize(
    ("of_author", "of_session", "heard"),
    [
        (None, None, LEVELS),
        ("error", None, ("error",)),
        ("error", "debug", LEVELS),
        ("error", "warning", ("warning", "error")),
        ("debug", "error", ("error",)),
    ],
)
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
def test_the_level_of_a_session_wins(of_author: str | None, of_session: str | None, heard: tuple[str, ...]) -> None:
    """`logging/setLevel` decides, then `client_log_level` of the server that has the tool."""
    mcp = server("outer", of_author)
    mcp.mount(server("inner", of_author), namespace="inner")
    with replica(lambda: create_app(mcp, Settings(mcp_components=(), handshake_sessions="full"))) as client:
        ask = asking(client)
        if of_session is not None:
            ask("logging/setLevel", level=of_session)
        for tool in ("says", "inner_says", "says_in_session"):
            *logged, result = ask("tools/call", name=tool)
            assert result["result"]["structuredContent"] == {"result": "said"}
            first = ["debug"] if tool == "says_in_session" and of_session in (None, "debug") else []
            assert [each["params"]["level"] for each in logged] == [*first, *heard], tool
