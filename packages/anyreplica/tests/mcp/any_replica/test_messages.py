"""Tests of the messages that a tool sends to its client while it runs."""

from typing import Any, get_args

import httpx
import pytest

from conftest import Server
from tests.calls import call, legacy, post, text
from tests.mcp.any_replica.listeners import ALL_LISTS, listening
from tests.replicas import Family, Fleet, asking, streaming

FAMILIES = get_args(Family)
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
TOKEN = {"progressToken": "token"}


def with_messages(family: Family, tool: str, **arguments: str) -> dict[str, Any]:
    """Return a call of a tool that asks for all its messages."""
    level = {LOG_LEVEL: "info"} if family == "stateless" else {}
    return asking(family, "tools/call", {"name": tool, "arguments": arguments}, **TOKEN, **level)


def check_message(message: dict[str, Any], tool: str, key: str) -> None:
    """Check that a message is the message that the tool sent before it began to wait."""
    params = message["params"]
    if tool == "report_and_wait":
        assert message["method"] == "notifications/progress"
        expected = {"progressToken": "token", "progress": 1, "total": 2, "message": f"waiting for {key}"}
        assert {name: params[name] for name in expected} == expected
    else:
        assert message["method"] == "notifications/message"
        assert params["level"] == "info"
        assert params["data"]["msg"] == f"waiting for {key}"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tool", ["report_and_wait", "log_and_wait"])
def test_messages_of_a_tool_arrive_while_it_runs(fleet: Fleet, family: Family, tool: str) -> None:
    """A client that accepts event streams receives a tool's message while the call still runs."""
    key = f"{family} {tool}"
    with streaming(fleet.url, with_messages(family, tool, key=key)) as (reply, events):
        assert reply.headers["content-type"] == "text/event-stream"
        replica = fleet.named(reply.headers["x-served-by"])
        check_message(next(events), tool, key)
        assert text(call(replica.url, "fate", {"key": key})) == "waiting"
        call(replica.url, "release", {"key": key})
        last = next(events)
        assert last["id"] == 1
        assert text(last["result"]) == key
        assert list(events) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_that_accepts_no_stream_gets_json(fleet: Fleet, family: Family) -> None:
    """A client that does not accept event streams gets a JSON reply without the tool's messages."""
    for tool in ("test_tool_with_progress", "test_tool_with_logging"):
        reply = post(fleet.url, **with_messages(family, tool))
        assert reply.headers["content-type"] == "application/json"
        assert "times" in reply.text or "logged" in reply.text
        assert reply.json()["id"] == 1


@pytest.mark.parametrize(
    ("method", "params", "meta"),
    [
        ("tools/call", {"name": "echo", "arguments": {"message": "hello"}}, TOKEN),
        ("tools/list", {}, TOKEN),
        ("resources/read", {"uri": "test://static-text"}, TOKEN),
        ("prompts/get", {"name": "test_simple_prompt"}, TOKEN),
        ("tools/call", {"name": "test_tool_with_progress"}, {}),
        ("tools/call", {"name": "test_tool_with_logging"}, {LOG_LEVEL: "error"}),
        ("tools/call", {"name": "test_tool_with_logging"}, {}),
    ],
)
def test_a_reply_without_messages_is_json(fleet: Fleet, method: str, params: dict[str, Any], meta: Any) -> None:
    """A component that sends no messages, or whose client asks for none, gives a JSON reply to any client."""
    for family in FAMILIES if params.get("name") != "test_tool_with_logging" else ("stateless",):
        with streaming(fleet.url, asking(family, method, params, **meta)) as (reply, _):
            assert reply.headers["content-type"] == "application/json"
            assert "result" in httpx.Response(200, content=reply.read()).json()


def test_json_response_true_sends_only_json(alone: dict[str, Server]) -> None:
    """With JSON_RESPONSE=true every reply to a call is JSON. A subscription still gets an event stream."""
    server = alone["true"]
    for family in FAMILIES:
        for tool in ("test_tool_with_progress", "test_tool_with_logging"):
            with streaming(server.url, with_messages(family, tool)) as (reply, _):
                assert reply.headers["content-type"] == "application/json"
    with listening(server, ALL_LISTS) as events:
        call(server.url, "test_trigger_tool_change")
        assert next(events)["method"] == "notifications/tools/list_changed"


def test_json_response_false_always_streams(alone: dict[str, Server]) -> None:
    """With JSON_RESPONSE=false every handshake reply is an event stream. A client that accepts none gets 406."""
    server = alone["false"]
    with streaming(server.url, asking("handshake", "tools/list")) as (reply, events):
        assert reply.headers["content-type"] == "text/event-stream"
        assert "result" in next(events)
    assert legacy(server.url, "tools/list").status_code == 406
    for family in FAMILIES:
        with streaming(server.url, with_messages(family, "report_and_wait", key=family)) as (_, events):
            check_message(next(events), "report_and_wait", family)
            with streaming(server.url, asking(family, "tools/call", {"name": "release", "arguments": {"key": family}})):
                pass
            assert text(next(events)["result"]) == family
    with listening(server, ALL_LISTS) as events:
        asked = asking("stateless", "tools/call", {"name": "test_trigger_tool_change"})
        with streaming(server.url, asked):
            assert next(events)["method"] == "notifications/tools/list_changed"
