"""What counts as a success."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from loadtest.call import Outcome, echo


def outcome(status: int, body: Any, **headers: str) -> Outcome:
    """The outcome of call number 7 when the server answers so."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, content=content, headers=headers)

    async def scenario() -> Outcome:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            return await echo(client, "http://server/mcp", 7)

    return asyncio.run(scenario())


def reply(number: int = 7, text: str = "load 7", **extra: Any) -> dict[str, Any]:
    """An echo's reply."""
    return {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": text}], **extra}}


def test_success_is_the_echo_of_this_call() -> None:
    """And the replica is noted."""
    good = outcome(200, reply(isError=False), **{"X-Served-By": "r1"})
    assert (good.error, good.replica) == ("", "r1")
    assert good.seconds > 0


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (503, reply(), "HTTP 503"),
        (202, b"", "HTTP 202"),
        (200, {"jsonrpc": "2.0", "id": 7, "error": {"code": -32602, "message": "no"}}, "JSON-RPC error -32602"),
        (200, reply(isError=True), "tool error"),
        (200, reply(text="load 8"), "wrong echo"),
        (200, reply(number=8), "wrong echo"),
        (200, b"<html>", "not a JSON-RPC reply"),
        (200, [], "not a JSON-RPC reply"),
        (200, {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}, "not a JSON-RPC reply"),
        (200, {"jsonrpc": "2.0", "id": 7, "error": "x"}, "not a JSON-RPC reply"),
    ],
)
def test_everything_else_is_a_failure(status: int, body: Any, error: str) -> None:
    """HTTP 200 alone proves nothing."""
    assert outcome(status, body).error == error


def test_a_connection_that_fails_is_named() -> None:
    """By what failed."""

    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async def scenario() -> Outcome:
        async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as client:
            return await echo(client, "http://server/mcp", 7)

    failed = asyncio.run(scenario())
    assert (failed.error, failed.replica) == ("ConnectError", "")
