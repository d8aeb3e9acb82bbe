"""Tests that callers without a common session do not affect each other."""

import json
from typing import Any

import pytest

from conftest import Server
from tests.calls import BOTH, FULL, call, legacy, text
from tests.replicas import Fleet, asking, streaming


def test_a_log_level_silences_nobody_else(fleet: Fleet, alone: dict[str, Server]) -> None:
    """A client that sets a log level does not silence the messages to other clients, also with event streams only."""
    for replica in (*fleet.replicas, alone["false"]):
        for level in ("emergency", "error"):
            reply = legacy(replica.url, "logging/setLevel", {"level": level}, Accept=BOTH)
            assert '"result":{}' in reply.text
        with streaming(replica.url, asking("handshake", "tools/call", {"name": "test_tool_with_logging"})) as (_, seen):
            assert len(list(seen)) == 4


def in_session(session: str, url: str, meta: dict[str, Any], tool: str, **arguments: str) -> str:
    """Call a tool with this session id and return the text of the result."""
    asked = asking("handshake", "tools/call", {"name": tool, "arguments": arguments}, **meta)
    asked["headers"] |= {"Mcp-Session-Id": session}
    with streaming(url, asked) as (reply, events):
        is_stream = reply.headers["content-type"] == "text/event-stream"
        return text((list(events)[-1] if is_stream else json.loads(reply.read()))["result"])


@pytest.mark.parametrize("meta", [{}, FULL], ids=["fast", "full"])
def test_a_foreign_session_id_reads_no_state(fleet: Fleet, alone: dict[str, Server], meta: dict[str, Any]) -> None:
    """Without sessions, a client that names another client's session id cannot read the state of that session."""
    for replica in (*fleet.replicas, alone["false"]):
        assert in_session("alice", replica.url, meta, "remember", value="secret") == "secret"
        for session in ("alice", "bob"):
            assert in_session(session, replica.url, meta, "recall") == "None"
    assert text(call(fleet.url, "recall")) == "None"
