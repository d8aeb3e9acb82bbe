"""Tests of requests to clients in the middle of a call. The client answers at another replica."""

import contextlib
import itertools
import json
import threading
from typing import Any

import pytest

from conftest import StartServer, until
from tests.calls import BOTH, call, get, legacy, modern, post, request, text
from tests.mcp.any_replica.rounds import ANSWERS, ROUNDS
from tests.replicas import Fleet, running, streaming
from tests.sessions.client import ADA, EVERYTHING, VERSION, AskedClient, said, start
from tests.sessions.fleets import own_fleet

pytestmark = pytest.mark.needs("redis")


def answers(message: dict[str, Any]) -> Any:
    """Answer like a client that supports every request."""
    return ADA if message["method"] == "elicitation/create" else ANSWERS.get(message["method"], {})


def test_every_request_is_answered_at_another_replica(asking_fleet: Fleet) -> None:
    """Elicitation in both modes, sampling, roots and ping reach the client, and its answers reach the call."""
    client = start(asking_fleet.url)
    expected = {
        "greet": "Hello, Ada!",
        "visit": "accept",
        "folders": "file:///work",
        "test_sampling": "LLM response: Paris",
        "two_at_once": "Ada and Ada",
    }
    for urls in itertools.permutations(asking_fleet.urls):
        for tool, text_ in expected.items():
            given = {"prompt": "Capital of France?"} if tool == "test_sampling" else {}
            assert said(client.call(list(urls), tool, answers, **given)) == text_


def test_multi_round_components_ask_handshake_clients(asking_fleet: Fleet) -> None:
    """A tool that returns an InputRequiredResult asks a handshake-protocol client with requests, round after round."""
    client = start(asking_fleet.url)
    for tool, expected in ROUNDS.items():
        assert said(client.call(asking_fleet.urls, tool, lambda asked: ANSWERS[asked["method"]])) == expected
    assert said(client.call(asking_fleet.urls, "transfer", answers, amount=5)) == "accept: 5"


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [("prompts/get", {"name": "introduction"}, "I am Ada."), ("resources/read", {"uri": "asking://me"}, "me: Ada")],
)
def test_prompts_and_resources_ask_too(asking_fleet: Fleet, method: str, params: Any, expected: str) -> None:
    """A prompt and a resource with several rounds ask a handshake-protocol client, too."""
    client = start(asking_fleet.url)
    asked = {"json": request(method, params), "headers": client.headed()}
    with streaming(asking_fleet.urls[0], asked) as (_, messages):
        question = next(messages)
        assert client.answer(asking_fleet.urls[1], question["id"], ADA).status_code == 202
        assert expected in str(next(messages)["result"])


def test_refusals_and_errors_of_the_client_reach_the_tool(asking_fleet: Fleet) -> None:
    """A tool sees that the user declined, and an error of the client as an MCPError."""
    client = start(asking_fleet.url)
    assert said(client.call(asking_fleet.urls, "greet", lambda _: {"action": "decline"})) == "You said decline."
    assert said(client.call(asking_fleet.urls, "greet", lambda _: {"action": "cancel"})) == "You said cancel."
    for tool, expected in (("why_not", "-1: No user here"), ("greet", "No user here")):
        with client.calling(asking_fleet.urls[0], tool) as messages:
            question = next(messages)
            error = {"error": {"code": -1, "message": "No user here"}}
            assert client.reply(asking_fleet.urls[1], question["id"], error).status_code == 202
            assert said(next(messages)) == expected


@pytest.mark.parametrize(
    ("capabilities", "tool", "lacks"),
    [({}, "greet", "elicitation"), ({"elicitation": {}}, "visit", "elicitation.url")],
)
def test_a_client_without_the_capability_is_not_asked(
    asking_fleet: Fleet, capabilities: dict[str, Any], tool: str, lacks: str
) -> None:
    """A client without the capability gets an error at once, with the words of the SDK's client and the capability."""
    client = start(asking_fleet.url, capabilities)
    response = client.call(asking_fleet.urls, tool, lambda _: {})
    assert response["result"]["isError"]
    assert f"Elicitation not supported: the client lacks the capability {lacks}." in said(response)


def test_rounds_need_the_capability(asking_fleet: Fleet) -> None:
    """A client that cannot answer a question gets FastMCP's error. Its text names the missing capability."""
    client = start(asking_fleet.url, {})
    error = client.call(asking_fleet.urls, "test_input_required_result_sampling", lambda _: {})["error"]
    assert error["code"] == -32602
    assert "returned an InputRequiredResult, which needs protocol version 2026-07-28" in error["message"]
    assert f"This client uses {VERSION}, and the server cannot ask it: it lacks the capability sampling" in str(error)


def test_a_client_without_an_event_stream_is_not_asked(asking_fleet: Fleet) -> None:
    """A client that accepts only JSON, or that has no session, gets an error that says what to change."""
    client = start(asking_fleet.url)
    reply = legacy(asking_fleet.url, "tools/call", {"name": "greet", "arguments": {}}, **client.headed())
    assert "send the header Accept with text/event-stream" in text(reply.json()["result"])
    for called in ({"name": "greet", "arguments": {}}, {"name": "transfer", "arguments": {"amount": 1}}):
        reply = legacy(asking_fleet.url, "tools/call", called, Accept=BOTH)
        assert "the call has no session; send initialize first" in reply.text


def test_without_sessions_the_error_names_the_setting(fleet: Fleet) -> None:
    """Without HANDSHAKE_SESSIONS no session id is issued, and a tool that asks gets an error with the setting."""
    hello = {"protocolVersion": VERSION, "capabilities": EVERYTHING, "clientInfo": {"name": "t", "version": "1"}}
    assert "mcp-session-id" not in legacy(fleet.url, "initialize", hello).headers
    for tool, arguments in (("test_elicitation", {"message": "?"}), ("transfer", {"amount": 1})):
        reply = legacy(fleet.url, "tools/call", {"name": tool, "arguments": arguments})
        assert "HANDSHAKE_SESSIONS is off" in reply.text
    assert reply.json()["error"]["code"] == -32602  # FastMCP's answer to a multi-round component
    assert "needs protocol version 2026-07-28. This client uses 2025-03-26" in reply.text


def test_await_elicit_is_an_error_in_the_stateless_protocol(asking_fleet: Fleet) -> None:
    """`await ctx.elicit` gets FastMCP's error in the stateless protocol, and an InputRequiredResult works."""
    result = modern(asking_fleet.url, "tools/call", {"name": "greet"}).json()["result"]
    assert "unavailable on 2026-07-28" in text(result)
    asked = modern(asking_fleet.url, "tools/call", {"name": "transfer", "arguments": {"amount": 1}}).json()["result"]
    assert asked["resultType"] == "input_required"


def test_the_client_has_a_time_limit(asking_fleet: Fleet) -> None:
    """After CLIENT_REQUEST_SECONDS tool and client learn that the request has ended; a late answer is ignored."""
    client = start(asking_fleet.url)
    with client.calling(asking_fleet.urls[0], "why_not") as messages:
        question, cancelled, response = messages
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == question["id"]
    assert said(response) == "-32001: The client did not answer elicitation/create within 5 s."
    assert client.answer(asking_fleet.urls[1], question["id"], ADA).status_code == 202
    assert AskedClient.answer(start(asking_fleet.url), asking_fleet.urls[1], question["id"], ADA).status_code == 400


def test_progress_extends_no_time_limit(asking_fleet: Fleet) -> None:
    """A client that reports progress and does not answer reaches the same time limit."""
    client = start(asking_fleet.url)
    rest: list[dict[str, Any]] = []
    with client.calling(asking_fleet.urls[0], "watched") as messages:
        report = {"progressToken": next(messages)["id"], "progress": 1}
        body = {"jsonrpc": "2.0", "method": "notifications/progress", "params": report}
        reader = threading.Thread(target=lambda: rest.extend(messages))
        reader.start()

        def has_ended() -> bool:
            assert post(asking_fleet.urls[1], json=body, headers=client.headed()).status_code == 202
            return not reader.is_alive()

        until(has_ended, "the call ends while its client reports progress")
    assert "The client did not answer elicitation/create within 5 s." in said(rest[-1])


def test_the_wait_for_the_client_does_not_count_for_the_time_limit(asking_fleet: Fleet) -> None:
    """A tool with a time limit of 2 s may wait longer for its client. The limit holds for the tool's own work."""
    client = start(asking_fleet.url)
    for seconds, expected in ((0, "Done."), (30, "tool 'patient' did not finish within 2 s")):
        with client.calling(asking_fleet.urls[0], "patient", {"seconds": seconds}) as messages:
            question = next(messages)
            assert text(call(asking_fleet.urls[1], "nap", {"seconds": 2.5})) == "2.5"
            assert client.answer(asking_fleet.urls[2], question["id"], ADA).status_code == 202
            assert said(next(messages)) == expected


def test_waiting_calls_do_not_fill_a_replica(asking_fleet: Fleet) -> None:
    """Calls that wait for their client do not count for MAX_IN_FLIGHT, so the replica still answers other calls."""
    client = start(asking_fleet.url)
    url = asking_fleet.urls[0]
    with contextlib.ExitStack() as stack:
        messages = [stack.enter_context(client.calling(url, "greet")) for _ in range(15)]
        questions = [next(each)["id"] for each in messages]
        assert text(call(url, "echo", {"message": "still served"})) == "still served"
        assert "mcp_requests_in_flight 0.0" in get(f"{url}/metrics").text
        for question in questions:
            assert client.answer(asking_fleet.urls[1], question, ADA).status_code == 202
        assert [said(next(each)) for each in messages] == ["Hello, Ada!"] * 15


@pytest.mark.smoke
@pytest.mark.servers
def test_a_single_replica_needs_no_redis(tmp_path: Any) -> None:
    """A single replica without Redis can ask its clients."""
    with running(tmp_path, 1, HANDSHAKE_SESSIONS="ask", MCP_COMPONENTS="tests.packs.asking") as alone:
        client = start(alone.url)
        assert said(client.call(alone.urls, "greet", lambda _: ADA)) == "Hello, Ada!"
        assert client.ended(alone.url).status_code == 204
        assert client.ended(alone.url).status_code == 404


@pytest.mark.servers
@pytest.mark.parametrize("hangs", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sessions", ["full", pytest.param("ask", marks=pytest.mark.slow)])
def test_without_redis_plain_calls_go_on(tmp_path: Any, sessions: str, hangs: bool) -> None:
    """While Redis is down or hangs, only tools that ask get an error, which is clear. Afterwards they ask again."""
    settings = {"MCP_COMPONENTS": "tests.packs.asking,server", "SHUTDOWN_GRACE_SECONDS": "1"}
    with own_fleet(tmp_path, "asking", 2, HANDSHAKE_SESSIONS=sessions, **settings) as (fleet, redis):
        client = start(fleet.url)
        assert said(client.call(fleet.urls, "greet", answers)) == "Hello, Ada!"
        with client.calling(fleet.urls[0], "greet") as messages:
            question = next(messages)
            redis.hang() if hangs else redis.kill()
            assert text(call(fleet.urls[0], "echo", {"message": "hi"})) == "hi"
            assert client.answer(fleet.urls[1], question["id"], ADA).status_code == 503
            with client.calling(fleet.urls[1], "greet") as others:
                assert "Redis cannot be reached; retry later" in said(next(others))
        redis.go_on() if hangs else redis.start()
        until(lambda: said(client.call(fleet.urls, "greet", answers)) == "Hello, Ada!", "the tool can ask again")


def test_a_server_names_the_tools_that_ask(start_server: StartServer) -> None:
    """The log names the components that cannot ask, because HANDSHAKE_SESSIONS is off."""
    server = start_server(MCP_COMPONENTS="tests.packs.asking", LOG_LEVEL="INFO")
    until(lambda: "HANDSHAKE_SESSIONS is off" in server.output, "the log names the setting")
    line = next(line for line in server.output.splitlines() if "HANDSHAKE_SESSIONS is off" in line)
    assert "greet" in line
    assert "number" not in line


def test_the_client_reports_progress_at_any_replica(asking_fleet: Fleet) -> None:
    """The progress of a request to the client reaches the tool that asks. A report of another session does not."""
    one, two, three = asking_fleet.urls
    client, stranger = start(asking_fleet.url), start(asking_fleet.url)
    with client.calling(one, "watched") as messages:
        question = next(messages)
        token = question["params"]["_meta"]["progressToken"]
        for who, url, progress, message in (
            (client, two, 1, "typing"),
            (stranger, two, 2, "x"),
            (client, three, 3, "y" * 5000),
            (client, three, float("inf"), "infinite"),
            (client, three, 4, "done"),
        ):
            report = {"progressToken": token, "progress": progress, "total": 4, "message": message}
            body = {"jsonrpc": "2.0", "method": "notifications/progress", "params": report}
            content = json.dumps(body).replace("Infinity", "1e400")
            assert post(url, content=content, headers=who.headed()).status_code == 202
        assert client.answer(three, question["id"], ADA).status_code == 202
        assert said(next(messages)) == "1 of 4: typing, 4 of 4: done"
