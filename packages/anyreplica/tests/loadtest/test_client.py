"""Tests of the requests that a load test sends, of its check of replies, and of its samples, with a fake server."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from anyreplica.load import workers
from anyreplica.load.client import LoadClient, judge
from anyreplica.load.connection import HttpReply
from anyreplica.load.message import SentRequest
from anyreplica.load.options import read
from anyreplica.load.run import LoadRun
from conftest import free_port
from tests.loadtest.fake import Answer, Fake, echo, echoed, fake, http


def go(answer: Answer, *arguments: str, url: str = "") -> tuple[LoadRun, Fake]:
    """Run the load test with options against a server with these answers, or against another URL."""

    async def both() -> tuple[LoadRun, Fake]:
        async with fake(answer) as server:
            run = LoadRun(workers.load_of_part(read(["--url", url or server.url, *arguments]), ["127.0.0.1"], 0))
            await run.go(LoadClient)
            return run, server

    return asyncio.run(both())


def kinds(run: LoadRun) -> Counter[str]:
    """Return the number of samples for each kind of failure; "" stands for success."""
    return Counter(each.kind for each in run.samples)


async def close(_: Fake, __: int, message: dict[str, Any]) -> bytes:
    """Reply correctly, and say that the connection is closed."""
    return echoed(message, Connection="close")


@pytest.mark.parametrize(
    ("answer", "policy", "connections"),
    [
        (echo, "keepalive", {5}),
        (echo, "fresh", {40}),
        (echo, "recycle:4", set(range(10, 15))),
        (close, "keepalive", {40}),
    ],
)
def test_how_long_a_connection_is_kept(answer: Answer, policy: str, connections: set[int]) -> None:
    """A connection serves all calls of a caller, one, or at most four, by the policy, until the server closes it."""
    run, server = go(answer, "--requests", "40", "--concurrent", "5", "--connections", policy)
    assert kinds(run) == {"": 40}
    assert server.connections in connections
    assert len(run.connects) == server.connections
    assert len({each.connection for each in run.samples}) == server.connections


def test_each_call_is_sent_once_with_a_number_of_its_own() -> None:
    """Each call is sent once with a unique id, and a loop waits for those in flight after its duration."""
    run, server = go(echo, "--requests", "100")
    assert sorted(message["id"] for message in server.messages) == list(range(1, 101))
    assert {each.replica for each in run.samples} == {"fake"}
    assert {each.name for each in run.samples} == {"tools/call echo"}
    run, server = go(echo, "--duration", "300ms", "--concurrent", "3")
    assert run.elapsed >= 0.3
    assert len(server.messages) == len(run.samples) > 10
    assert kinds(run) == {"": len(run.samples)}


@pytest.mark.parametrize(("family", "versions"), [("legacy", 1), ("modern", 1), ("mixed", 2)])
def test_protocol_families(family: str, versions: int) -> None:
    """A request of the stateless protocol repeats parts of its body in headers and has an envelope."""
    _, server = go(echo, "--requests", "10", "--era", family, "--header", "X-Tenant: blue", "--token", "secret")
    seen = set()
    for head, message in zip(server.heads, server.messages, strict=True):
        modern = b"MCP-Protocol-Version: 2026-07-28\r\n" in head
        seen.add(modern)
        assert (b"Mcp-Method: tools/call\r\nMcp-Name: echo\r\n" in head) == modern
        assert ("_meta" in message["params"]) == modern
        assert b"X-Tenant: blue\r\n" in head
        assert b"Authorization: Bearer secret\r\n" in head
        assert b"Signature" not in head  # because there is no --sign-key
    assert len(seen) == versions


async def silence(*_: Any) -> bytes:
    """Never reply."""
    await asyncio.Future()
    return b""


def always(answer: bytes) -> Answer:
    """Return a function that gives every request this reply."""

    async def give(*_: Any) -> bytes:
        return answer

    return give


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (silence, "timeout"),
        (always(b""), "connection closed"),
        (always(b"SSH-2.0-OpenSSH_9\r\n"), "not HTTP"),
        (always(http(b"slow down", "429 Too Many Requests", Retry_After="7")), "HTTP 429 too many requests"),
        (always(http({}, "503 Service Unavailable")), "HTTP 503 unavailable"),
        (always(http({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602}})), "JSON-RPC error -32602"),
    ],
)
def test_failures_are_told_apart(answer: Answer, kind: str) -> None:
    """Each kind of failure has its own name in the samples, and Retry-After is in the example."""
    run, _ = go(answer, "--requests", "1", "--timeout", "200ms")
    assert kinds(run) == {kind: 1}
    if "429" in kind:
        assert run.samples.examples == {kind: "slow down; Retry-After: 7"}


def test_a_refused_connection_is_a_failure_of_its_call() -> None:
    """A refused connection is a failure of its call, and the caller pauses before the next call."""
    nowhere = f"http://127.0.0.1:{free_port()}/mcp"
    run, _ = go(echo, "--duration", "300ms", "--concurrent", "2", url=nowhere)
    assert set(kinds(run)) == {"connection refused"}
    assert len(run.samples) <= 10


def test_an_event_stream_is_read_to_its_end() -> None:
    """The caller reads an event stream to its end; the last message is the reply."""

    async def stream(_: Fake, __: int, message: dict[str, Any]) -> bytes:
        text = message["params"]["arguments"]["message"]
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": text}]}}
        events = f'data: {{"jsonrpc":"2.0","method":"notifications/progress"}}\r\n\r\ndata: {json.dumps(reply)}\r\n\r\n'
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked"
        return f"{head}\r\n\r\n{len(events):x}\r\n{events}\r\n0\r\n\r\n".encode()

    run, _ = go(stream, "--requests", "5")
    assert kinds(run) == {"": 5}


@pytest.mark.alone
def test_coordinated_omission_is_shown_and_defeated() -> None:
    """With a schedule, a stall shows in all requests that were due, which a closed loop would not have sent."""

    # The server stops for two seconds, once, under 100 requests/s. A closed loop counts only one slow request. But
    # two hundred requests were due in this time, and the users of half of them would have waited for more than 1 s.
    async def stall(server: Fake, number: int, message: dict[str, Any]) -> bytes:
        if number == 40:
            await asyncio.sleep(2)
        return echoed(message)

    closed, _ = go(stall, "--requests", "300", "--concurrent", "1")
    opened, _ = go(stall, "--requests", "300", "--concurrent", "1", "--rate", "100")
    assert sum(each.seconds > 1 for each in closed.samples) == 1
    assert 90 <= sum(each.seconds > 1 for each in opened.samples) <= 150


@pytest.mark.alone
def test_an_open_loop_keeps_its_rate_whatever_the_replies_do() -> None:
    """An open loop keeps its rate even if replies are slow. 300 requests/s of 100 ms each need 30 clients."""

    async def slow(_: Fake, __: int, message: dict[str, Any]) -> bytes:
        await asyncio.sleep(0.1)
        return echoed(message)

    run, _ = go(slow, "--rate", "300/s", "--duration", "1s")
    assert len(run.samples) == 300
    assert max(each.started for each in run.samples) < 1.2
    assert 0.09 < sorted(each.seconds for each in run.samples)[150] < 0.4


def test_twenty_calls_are_in_flight() -> None:
    """With `--concurrent 20`, twenty calls are in flight at the same time. The server never answers fewer calls."""
    together = asyncio.Barrier(20)

    async def patient(_: Fake, __: int, message: dict[str, Any]) -> bytes:
        async with asyncio.timeout(10):
            await together.wait()
        return echoed(message)

    run, _ = go(patient, "--requests", "100", "--concurrent", "20")
    assert kinds(run) == {"": 100}


@pytest.mark.parametrize("family", ["legacy", "modern"])
def test_a_conversation(family: str) -> None:
    """A session sends all messages of a client in order, and names the session id that the server issued."""

    async def with_session(server: Fake, number: int, message: dict[str, Any]) -> bytes:
        if message["method"].startswith("notifications/"):
            return http(b"", "202 Accepted")
        return echoed(message, **({"Mcp_Session_Id": "s1"} if message["method"] == "initialize" else {}))

    run, server = go(with_session, "--session", "--requests", "2", "--concurrent", "1", "--protocol", family)
    methods = [message["method"] for message in server.messages[: len(server.messages) // 2]]
    first = ["initialize", "notifications/initialized"] if family == "legacy" else ["server/discover"]
    assert methods == [*first, "tools/list", *["tools/call"] * 3]
    assert kinds(run) == {"": len(server.messages)}
    named = [b"Mcp-Session-Id: s1\r\n" in head for head in server.heads]
    assert named == [family == "legacy" and method != "initialize" for method in methods] * 2
    identities = [message["id"] for message in server.messages if "id" in message]
    assert len(set(identities)) == len(identities)


def test_a_mix_has_its_weights(tmp_path: Any) -> None:
    """A mix calls its entries by their weights, and its fields differ from call to call."""
    file = tmp_path / "mix.json"
    file.write_text('[{"weight": 3, "tool": "add", "args": {"a": "{i}", "b": "n{i}"}}, {"method": "tools/list"}]')
    run, server = go(echo, "--mix", str(file), "--requests", "400")
    counts = Counter(each.name for each in run.samples)
    assert set(counts) == {"tools/call add", "tools/list"}
    assert 250 < counts["tools/call add"] < 350
    for message in server.messages:
        if message["method"] == "tools/call":
            assert message["params"]["arguments"] == {"a": message["id"], "b": f"n{message['id']}"}


def test_stopping_counts_nothing_that_was_in_flight() -> None:
    """After an interruption, requests in flight do not count as failures."""

    async def both() -> LoadRun:
        busy = asyncio.Event()

        async def never(_: Fake, number: int, __: dict[str, Any]) -> bytes:
            if number == 20:
                busy.set()
            return await silence()

        async with fake(never) as server:
            run = LoadRun(workers.load_of_part(read(["--url", server.url, "--duration", "60s"]), ["127.0.0.1"], 0))
            going = asyncio.create_task(run.go(LoadClient))
            await busy.wait()
            run.stop()
            await going
            return run

    assert len(asyncio.run(both()).samples) == 0


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
    """A call succeeds with its own echo, also at a stream's end, a notification with 202; examples are short."""
    assert not kind(200, reply(isError=False))
    assert not kind(200, PROGRESS + b"data: " + json.dumps(reply()).encode() + b"\r\n\r\n")
    assert not kind(202, b"", SentRequest(b"", "notifications/initialized", None))
    failure = judge(CALL, HttpReply(500, body=b"x" * 10_000))
    assert failure
    assert len(failure[1]) == 201


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
