"""Tests of the check whether a call succeeded."""

import json
from typing import Any

import pytest

from anyreplica.load.client import judge
from anyreplica.load.connection import HttpReply
from anyreplica.load.message import SentRequest

CALL = SentRequest(b"", "tools/call echo", 7, "load 7")


def reply(number: int = 7, text: str = "load 7", **extra: Any) -> dict[str, Any]:
    """Return an echo's reply."""
    return {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": text}], **extra}}


def kind(status: int, body: Any, request: SentRequest = CALL) -> str:
    """Return the kind of failure, or an empty text for a success."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    failure = judge(request, HttpReply(status, body=content))
    return failure[0] if failure else ""


PROGRESS = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\r\n\r\n'


def test_success_is_the_echo_of_this_call() -> None:
    """A call succeeds with its own echo, plain or as the last event of a stream, and a notification with 202."""
    assert not kind(200, reply(isError=False))
    assert not kind(200, PROGRESS + b"data: " + json.dumps(reply()).encode() + b"\r\n\r\n")
    assert not kind(202, b"", SentRequest(b"", "notifications/initialized", None))


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, reply(), "HTTP 500"),
        (401, b"", "HTTP 401 (give --token or set MCP_TOKEN)"),
        (202, b"", "not a JSON-RPC response to this request"),
        (200, {"jsonrpc": "2.0", "id": 7, "error": {"code": -32602, "message": "no"}}, "JSON-RPC error -32602"),
        (200, reply(isError=True), "tool error"),
        (200, reply(text="load 8"), "wrong text"),
        (200, reply(number=8), "not a JSON-RPC response to this request"),
        (200, b"<html>", "not a JSON-RPC response to this request"),
        (200, b"data: {\r\n\r\n", "not a JSON-RPC response to this request"),
        (200, [], "not a JSON-RPC response to this request"),
        (200, {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}, "wrong text"),
        (200, {"jsonrpc": "2.0", "id": 7, "error": "x"}, "JSON-RPC error"),
    ],
)
def test_everything_else_is_a_failure(status: int, body: Any, error: str) -> None:
    """Any other reply is a failure, even with HTTP 200."""
    assert kind(status, body) == error


def test_an_example_is_short() -> None:
    """The example of a failure is short, whatever the reply is."""
    failure = judge(CALL, HttpReply(500, body=b"x" * 10_000))
    assert failure
    assert len(failure[1]) == 201
