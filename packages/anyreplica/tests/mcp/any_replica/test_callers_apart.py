"""Tests that callers without a common session do not affect each other."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from conftest import Server
from tests.calls import BOTH, FULL, call, legacy, text
from tests.replicas import Fleet, asking, streaming

LOG_LEVEL = "io.modelcontextprotocol/logLevel"


def test_a_log_level_silences_nobody_else(fleet: Fleet, alone: dict[str, Server]) -> None:
    """A client that sets a log level does not silence the messages to other clients.

    FastMCP stores one log level for all clients without a session. One of the replicas has JSON_RESPONSE=false.
    """
    for replica in (*fleet.replicas, alone["false"]):
        for level in ("emergency", "error"):
            reply = legacy(replica.url, "logging/setLevel", {"level": level}, Accept=BOTH)
            assert '"result":{}' in reply.text
        with streaming(replica.url, asking("handshake", "tools/call", {"name": "test_tool_with_logging"})) as (_, seen):
            assert len(list(seen)) == 4


Send = Callable[[str, str, dict[str, Any]], str]


def in_session(session: str, path: str) -> Send:
    """Return a function that calls a tool with this session id and returns the text of the result."""
    meta = FULL if path == "full" else {}

    def send(url: str, tool: str, arguments: dict[str, Any]) -> str:
        asked = asking("handshake", "tools/call", {"name": tool, "arguments": arguments}, **meta)
        asked["headers"] |= {"Mcp-Session-Id": session}
        with streaming(url, asked) as (reply, events):
            if reply.headers["content-type"] == "text/event-stream":
                return text(list(events)[-1]["result"])
            return text(httpx.Response(200, content=reply.read()).json()["result"])

    return send


@pytest.mark.parametrize("path", ["fast", "full"])
def test_a_foreign_session_id_reads_no_state(fleet: Fleet, alone: dict[str, Server], path: str) -> None:
    """A client that names another client's session id cannot read the state of that session.

    Without sessions no replica issues an id, so an id proves nothing. One of the replicas has JSON_RESPONSE=false.
    """
    for replica in (*fleet.replicas, alone["false"]):
        assert in_session("alice", path)(replica.url, "remember", {"value": "secret"}) == "secret"
        for session in ("alice", "bob"):
            assert in_session(session, path)(replica.url, "recall", {}) == "None"
    assert text(call(fleet.url, "recall")) == "None"
