"""Tests of the limit on calls in flight (MAX_IN_FLIGHT)."""

import asyncio
from typing import Any

import httpx
import pytest

from conftest import StartServer
from tests.calls import BOTH, HEADERS, legacy, request
from tests.replicas import asking, streaming

WAITING = {"MCP_COMPONENTS": "server,tests.packs.waiting", "MAX_IN_FLIGHT": "3"}


def message(tool: str, arguments: dict[str, Any], number: int = 1) -> dict[str, Any]:
    """Return the call of a tool."""
    return request("tools/call", {"name": tool, "arguments": arguments}, number)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "false"])
@pytest.mark.parametrize("tool", ["wait", "report_and_wait"])
async def test_a_call_beyond_the_limit_is_refused(start_server: StartServer, mode: str, tool: str) -> None:
    """A call beyond the limit gets 503, Retry-After and its id at once; the next one is accepted when one has ended."""
    server = start_server(JSON_RESPONSE=mode, **WAITING)
    both = {**HEADERS, "Accept": BOTH}

    limits = httpx.Limits(max_connections=20)
    async with httpx.AsyncClient(base_url=server.url, timeout=30, limits=limits, headers=both) as client:

        async def admitted(key: str) -> httpx.Response:
            """Return the answer to a call, sent again if another call of this test causes a refusal."""
            while (answer := await client.post("/mcp", json=message(tool, {"key": key}))).status_code == 503:
                pass
            return answer

        sent = [asyncio.create_task(admitted(f"k{number}")) for number in range(3)]
        while True:
            refused = await client.post("/mcp", json=message("echo", {"message": "hi"}, 7))
            if refused.status_code == 503:
                break
        assert refused.headers["Retry-After"] == "1"
        assert "X-Served-By" in refused.headers
        error = refused.json()
        assert (error["id"], error["error"]["code"]) == (7, -32000)
        assert "3 requests in flight (MAX_IN_FLIGHT)" in error["error"]["message"]
        sent.pop().cancel()  # The client of this call disconnects.
        for key, answer in zip(("k0", "k1"), sent, strict=True):
            while (await client.post("/mcp", json=message("release", {"key": key}))).status_code == 503:
                pass
            assert key in (await answer).text
        assert (await client.get("/healthz")).status_code == 200


def test_subscriptions_do_not_count(start_server: StartServer) -> None:
    """A subscription, which may stay open for days, does not count as a call in flight."""
    server = start_server(MAX_IN_FLIGHT="1")
    asked = asking("stateless", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    with streaming(server.url, asked) as (reply, events):
        assert reply.status_code == 200
        assert next(events)
        assert legacy(server.url, "tools/call", {"name": "echo", "arguments": {"message": "hi"}}).status_code == 200
