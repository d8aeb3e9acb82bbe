"""What a tool says while it runs, to callers who take an event stream."""

from typing import Any, get_args

import httpx
import pytest

from conftest import Server
from tests.calls import call, legacy, post, text
from tests.mcp.any_replica.listeners import ALL_LISTS, listening
from tests.replicas import (
    Family,
    Fleet,
    asking,
    streaming,
)

FAMILIES = get_args(Family)
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


def waiting_call(family: Family, tool: str, key: str) -> dict[str, Any]:
    """A call of a tool that says something, and then waits until it is released."""
    params = {"name": tool, "arguments": {"key": key}}
    if tool == "report_and_wait":
        return asking(family, "tools/call", params, progressToken="token")
    return asking(family, "tools/call", params, **({LOG_LEVEL: "info"} if family == "stateless" else {}))


def check_said(message: dict[str, Any], tool: str, key: str) -> None:
    """It is what the tool said before it began to wait."""
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
def test_what_a_tool_says_arrives_while_it_runs(fleet: Fleet, family: Family, tool: str) -> None:
    """The message is here, and the call goes on until a second request ends it."""
    key = f"{family} {tool}"
    with streaming(fleet.url, waiting_call(family, tool, key)) as (reply, events):
        assert reply.headers["content-type"] == "text/event-stream"
        replica = fleet.named(reply.headers["x-served-by"])
        check_said(next(events), tool, key)
        assert text(call(replica.url, "fate", {"key": key})) == "waiting"
        call(replica.url, "release", {"key": key})
        last = next(events)
        assert last["id"] == 1
        assert text(last["result"]) == key
        assert list(events) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_who_takes_no_stream_gets_json(fleet: Fleet, family: Family) -> None:
    """What the tool said is dropped."""
    for tool in ("test_tool_with_progress", "test_tool_with_logging"):
        meta = {"progressToken": "token"} | ({LOG_LEVEL: "info"} if family == "stateless" else {})
        asked = asking(family, "tools/call", {"name": tool, "arguments": {}}, **meta)
        reply = post(fleet.url, **asked)
        assert reply.headers["content-type"] == "application/json"
        assert "times" in reply.text or "logged" in reply.text
        assert reply.json()["id"] == 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["tools/call", "tools/list", "resources/read", "prompts/get"])
def test_who_says_nothing_answers_json(fleet: Fleet, family: Family, method: str) -> None:
    """Also to those who would take a stream, and gave a token for progress."""
    all_params: dict[str, dict[str, Any]] = {
        "tools/call": {"name": "echo", "arguments": {"message": "hello"}},
        "tools/list": {},
        "resources/read": {"uri": "test://static-text"},
        "prompts/get": {"name": "test_simple_prompt"},
    }
    with streaming(fleet.url, asking(family, method, all_params[method], progressToken="token")) as (reply, _):
        assert reply.headers["content-type"] == "application/json"
        assert "result" in httpx.Response(200, content=reply.read()).json()


def test_a_message_needs_a_level_in_the_stateless_era(fleet: Fleet) -> None:
    """Without one in the request's envelope there are none, and so no stream."""
    asked = asking("stateless", "tools/call", {"name": "test_tool_with_logging", "arguments": {}})
    with streaming(fleet.url, asked) as (reply, _):
        assert reply.headers["content-type"] == "application/json"
    above = asking("stateless", "tools/call", asked["json"]["params"], **{LOG_LEVEL: "error"})
    with streaming(fleet.url, above) as (reply, _):
        assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("family", FAMILIES)
def test_progress_needs_a_token(fleet: Fleet, family: Family) -> None:
    """As the protocol says; without one there is no stream."""
    with streaming(fleet.url, asking(family, "tools/call", {"name": "test_tool_with_progress"})) as (reply, _):
        assert reply.headers["content-type"] == "application/json"


def test_json_always(alone: dict[str, Server]) -> None:
    """JSON_RESPONSE=true: whatever a caller takes and a tool says. A subscription is a stream all the same."""
    server = alone["true"]
    for family in FAMILIES:
        for tool in ("test_tool_with_progress", "test_tool_with_logging"):
            meta = {"progressToken": "token"} | ({LOG_LEVEL: "info"} if family == "stateless" else {})
            with streaming(server.url, asking(family, "tools/call", {"name": tool}, **meta)) as (reply, _):
                assert reply.headers["content-type"] == "application/json"
    with listening(server, ALL_LISTS) as events:
        call(server.url, "test_trigger_tool_change")
        assert next(events)["method"] == "notifications/tools/list_changed"


def test_the_sdks_own_behaviour(alone: dict[str, Server]) -> None:
    """JSON_RESPONSE=false: the handshake protocol's replies are streams always, and callers have to take them."""
    server = alone["false"]
    with streaming(server.url, asking("handshake", "tools/list")) as (reply, events):
        assert reply.headers["content-type"] == "text/event-stream"
        assert "result" in next(events)
    assert legacy(server.url, "tools/list").status_code == 406
    for family in FAMILIES:
        with streaming(server.url, waiting_call(family, "report_and_wait", family)) as (_, events):
            check_said(next(events), "report_and_wait", family)
            with streaming(server.url, asking(family, "tools/call", {"name": "release", "arguments": {"key": family}})):
                pass
            assert text(next(events)["result"]) == family
    with listening(server, ALL_LISTS) as events:
        asked = asking("stateless", "tools/call", {"name": "test_trigger_tool_change"})
        with streaming(server.url, asked):
            assert next(events)["method"] == "notifications/tools/list_changed"
