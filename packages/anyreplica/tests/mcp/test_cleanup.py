"""What a middleware leaves for the end of a connection ends with the call, because each call has its own connection."""

import pytest
from fastmcp import FastMCP
from fastmcp.server.middleware.ping import PingMiddleware

from anyreplica import Settings, create_app
from anyreplica.testing import replica

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}}
HEADERS = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}


@pytest.mark.parametrize("path", ["fast", "direct"])
def test_a_ping_task_ends_with_its_call(path: str) -> None:
    """`PingMiddleware` starts a task for each connection. No tool call leaves its task behind."""
    mcp = FastMCP("pinging")
    mcp.tool(lambda text: text, name="echo")
    pings = PingMiddleware()
    mcp.add_middleware(pings)
    call = CALL
    if path == "direct":  # a call that selects a version takes this path
        mcp.tool(lambda text: text * 2, name="versioned", version="2")
        meta = {"fastmcp": {"version": "2"}}
        call = {**CALL, "params": {"name": "versioned", "arguments": {"text": "hello"}, "_meta": meta}}
    with replica(lambda: create_app(mcp, Settings(mcp_components=()))) as client:
        before = len(pings._active_sessions)
        for _ in range(5):
            reply = client.http.post("/mcp", json=call, headers=HEADERS)
            assert "error" not in reply.json(), reply.text
        assert len(pings._active_sessions) == before
