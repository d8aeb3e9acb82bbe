"""Tests of the event streams of sessions (HANDSHAKE_SESSIONS=full), each step at another replica."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import until
from tests.calls import BOTH, get, legacy, request, text
from tests.replicas import Fleet, RedisServer, messages, running
from tests.sessions.client import ADA, AskedClient, start
from tests.sessions.fleets import own_fleet
from tests.sessions.resuming import call, greeted, resumed, sent, stream

pytestmark = pytest.mark.needs("redis")


@contextlib.contextmanager
def hearing(client: AskedClient, url: str) -> Iterator[list[str]]:
    """Open the event stream of a session, and collect its messages in a list that grows."""
    heard: list[str] = []
    with stream(client, url) as reply:
        assert reply.status_code == 200, reply.read()

        def listen() -> None:
            with contextlib.suppress(httpx.HTTPError, RuntimeError):
                heard.extend(each["params"]["uri"] if "params" in each else each["method"] for each in messages(reply))
                heard.append("end")

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield heard


def ask(client: AskedClient, url: str, method: str, **params: Any) -> httpx.Response:
    """Send a request in the session."""
    return legacy(url, method, params, **client.headed())


def test_a_session_hears_its_resources_on_any_replica(full_fleet: Fleet) -> None:
    """A client hears the changes of its resources only, also on a new stream that it opens at another replica."""
    one, two, three = full_fleet.urls
    client = start(full_fleet.url)
    with hearing(client, one) as heard:
        assert ask(client, two, "resources/subscribe", uri="a://1").json()["result"] == {}
        until(lambda: _touched(client, three, heard, "a://1"), "the client hears of a://1")
        assert ask(client, two, "resources/subscribe", uri="a://2").json()["result"] == {}
        assert ask(client, three, "resources/unsubscribe", uri="a://1").json()["result"] == {}
        until(lambda: _touched(client, two, heard, "a://2"), "the client hears of a://2")
        heard.clear()
        for uri in ("a://1", "a://3", "a://2"):
            assert call(client, three, "touch", uri=uri) == "Told."
        until(lambda: "a://2" in heard, "the client hears of a://2 again")
        assert set(heard) == {"a://2"}
    for url in full_fleet.urls:
        with hearing(client, url) as again:
            until(lambda again=again: _touched(client, three, again, "a://2"), "the client hears it")  # type: ignore[misc]


def _touched(client: AskedClient, url: str, heard: list[str], uri: str) -> bool:
    call(client, url, "touch", uri=uri)
    return uri in heard


def test_a_stream_ends_with_its_session(full_fleet: Fleet) -> None:
    """A stream ends when its client opens another one, or ends the session, at another replica. No new one opens."""
    client = start(full_fleet.url)
    with hearing(client, full_fleet.urls[0]) as first, hearing(client, full_fleet.urls[1]) as second:
        until(lambda: first == ["end"], "the first stream has ended")
        assert second == []
        assert client.ended(full_fleet.urls[2]).status_code == 204
        until(lambda: second == ["end"], "the second stream has ended")
    with stream(client, full_fleet.urls[2]) as reply:
        assert reply.status_code == 404


def test_a_stream_needs_a_session_and_an_accept_header(full_fleet: Fleet) -> None:
    """A stream needs a valid session id and an Accept header, and a subscription needs a session."""
    url = f"{full_fleet.urls[0]}/mcp"
    assert get(url, headers={"Accept": BOTH}).status_code == 400
    assert get(url, headers={"Accept": BOTH, "Mcp-Session-Id": "x"}).status_code == 404
    assert get(url, headers=start(full_fleet.url).headed()).status_code == 406
    reply = legacy(full_fleet.url, "resources/subscribe", {"uri": "a://1"}).json()
    assert "needs a session: send initialize first" in reply["error"]["message"]


def test_streams_are_limited(full_fleet: Fleet) -> None:
    """Beyond MAX_SUBSCRIPTIONS a replica refuses a stream with HTTP 503, and calls are still answered."""
    url = full_fleet.urls[0]
    with contextlib.ExitStack() as stack:
        opened = (stack.enter_context(stream(start(url), url)).status_code for _ in range(30))
        assert 503 in opened
        assert call(start(url), url, "echo", message="still served") == "still served"


def test_subscriptions_are_limited(full_fleet: Fleet) -> None:
    """A session has at most 1,000 subscriptions. An error says what to do."""
    client = start(full_fleet.url)
    with httpx.Client(verify=False, timeout=60) as http:
        for number in range(1001):
            body = request("resources/subscribe", {"uri": f"a://{number}"})
            reply = http.post(f"{full_fleet.urls[0]}/mcp", json=body, headers=client.headed()).json()
    assert "Too many subscriptions: a session has at most 1000" in reply["error"]["message"]


def test_the_uris_of_a_session_are_limited(full_fleet: Fleet) -> None:
    """All URIs of a session have at most 64 KB. Its event stream and other sessions still work."""
    client, other = start(full_fleet.url), start(full_fleet.url)
    one, two, three = full_fleet.urls

    def subscribe(uri: str) -> Any:
        return ask(client, one, "resources/subscribe", uri=uri).json()

    uris = [f"a://{number:03}{'x' * 1000}" for number in range(70)]
    replies = [subscribe(uri) for uri in uris]
    assert [("result" in reply) for reply in replies] == [True] * 65 + [False] * 5
    assert "a session has at most 1000, with at most 65536 bytes of URIs" in replies[-1]["error"]["message"]
    assert "result" in subscribe(uris[0]), "the session has it already"
    assert ask(client, two, "resources/unsubscribe", uri=uris[0]).json()["result"] == {}
    assert "result" in subscribe(uris[-1])
    assert ask(client, three, "logging/setLevel", level="error").json()["result"] == {}
    with hearing(client, two) as heard:
        until(lambda: _touched(client, three, heard, uris[-1]), "the client hears of a resource")
    assert ask(other, one, "resources/subscribe", uri="a://1").json()["result"] == {}


@pytest.mark.parametrize("uri", ["b://1", "unknown", "a:/1"])
def test_a_resource_that_does_not_exist_has_no_subscribers(full_fleet: Fleet, uri: str) -> None:
    """A subscription to a URI that no resource matches is refused like the reading of this URI."""
    client = start(full_fleet.url)
    answers = [ask(client, full_fleet.url, f"resources/{what}", uri=uri).json() for what in ("read", "subscribe")]
    assert answers[0]["error"] == answers[1]["error"]
    assert answers[1]["error"]["code"] == -32602
    assert answers[1]["error"]["message"] == f"Resource not found: {uri!r}"


def test_a_log_level_is_its_sessions_only(full_fleet: Fleet) -> None:
    """A session gets only log messages of its level, on every replica; another session gets all of them."""
    quiet, other = start(full_fleet.url), start(full_fleet.url)
    assert ask(quiet, full_fleet.urls[0], "logging/setLevel", level="error").json()["result"] == {}
    for url in full_fleet.urls:
        for client, expected in ((quiet, 1), (other, 4)):
            with client.calling(url, "test_tool_with_logging") as seen:
                assert len(list(seen)) == expected


def test_a_session_has_its_own_state_on_every_replica(full_fleet: Fleet) -> None:
    """`ctx.set_state` at one replica is read at the others, and only in the same session."""
    one, two, three = full_fleet.urls
    alice, bob = start(full_fleet.url), start(full_fleet.url)
    assert call(alice, one, "remember", value="tea") == "tea"
    assert call(bob, two, "remember", value="coffee") == "coffee"
    for url in (one, two, three):
        assert call(alice, url, "recall") == "tea"
        assert call(bob, url, "recall") == "coffee"
    assert text(legacy(one, "tools/call", {"name": "recall"}).json()["result"]) == "None"


@pytest.mark.parametrize("tool", ["wait", "wait_with_context", "log_and_wait"])
def test_a_call_is_cancelled_from_any_replica(full_fleet: Fleet, tool: str) -> None:
    """`notifications/cancelled` of the same session at one replica cancels the call that another replica runs."""
    one, two, three = full_fleet.urls
    client, stranger = start(full_fleet.url), start(full_fleet.url)
    key = f"cancelled-{tool}"
    replies: list[dict[str, Any]] = []

    def run() -> None:
        with client.calling(one, tool, {"key": key}) as seen:
            replies.extend(seen)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until(lambda: call(client, one, "fate", key=key) == "waiting", "the call waits")
    assert stranger.cancel(two, 1).status_code == 202
    assert client.cancel(three, 1).status_code == 202
    until(lambda: call(client, one, "fate", key=key) == "cancelled", "the call is cancelled")
    thread.join(10)
    assert replies[-1]["error"]["message"] == "Request cancelled"


@pytest.mark.servers
def test_streams_move_on_when_their_replica_drains(tmp_path: Path) -> None:
    """A replica that stops ends its streams at the beginning of the drain, and the client goes on at another one."""
    with own_fleet(tmp_path, "state", DRAIN_SECONDS="30") as (fleet, _):
        client = start(fleet.urls[0])
        assert ask(client, fleet.urls[1], "resources/subscribe", uri="a://1").json()["result"] == {}
        with hearing(client, fleet.urls[0]) as heard:
            fleet.replicas[0].process.terminate()
            until(lambda: heard == ["end"], "the stream has ended")
        with hearing(client, fleet.urls[1]) as heard:
            until(lambda: _touched(client, fleet.urls[1], heard, "a://1"), "the client hears of a://1")
        for replica in fleet.replicas:  # the second SIGTERM, which follows, stops a replica at once
            replica.process.terminate()


@pytest.mark.servers
def test_a_stream_survives_an_outage_of_redis(tmp_path: Path) -> None:
    """A stream outlives an outage of Redis with its subscriptions. Meanwhile, no new stream opens."""
    with own_fleet(tmp_path, "state") as (fleet, redis):
        client = start(fleet.urls[0])
        assert ask(client, fleet.urls[0], "resources/subscribe", uri="a://1").json()["result"] == {}
        with hearing(client, fleet.urls[0]) as heard:
            redis.kill()
            with stream(start(fleet.urls[1]), fleet.urls[1]) as reply:
                assert reply.status_code == 503
            refused = ask(client, fleet.urls[0], "resources/subscribe", uri="a://2").json()
            assert "Redis cannot be reached; retry later" in refused["error"]["message"]
            redis.start()
            until(lambda: _touched(client, fleet.urls[1], heard, "a://1"), "the client hears of a://1")


@pytest.mark.servers
def test_a_single_replica_needs_no_redis(tmp_path: Path) -> None:
    """A single replica without Redis serves streams, subscriptions and state, and keeps the events of a call."""
    packs = "tests.packs.state,tests.packs.asking"
    with running(tmp_path, 1, HANDSHAKE_SESSIONS="full", MCP_COMPONENTS=packs) as alone:
        client = start(alone.url)
        assert call(client, alone.url, "remember", value="tea") == "tea"
        assert call(client, alone.url, "recall") == "tea"
        assert ask(client, alone.url, "resources/subscribe", uri="a://1").json()["result"] == {}
        with hearing(client, alone.url) as heard:
            until(lambda: _touched(client, alone.url, heard, "a://1"), "the client hears of a://1")
        with sent(client, alone.url, "greet") as events:
            first, _ = next(events)
            question = next(events)
        with resumed(client, alone.url, first) as (_, rest):
            assert next(rest) == question
            greeted(client, alone.url, question, rest)


def test_every_key_expires(full_fleet: Fleet, asking_redis: RedisServer) -> None:
    """No key stays in Redis for ever, whatever it is for."""
    one, two, _ = full_fleet.urls
    client, ended = start(full_fleet.url), start(full_fleet.url)
    assert ended.ended(two).status_code == 204
    assert call(client, full_fleet.url, "remember", value="tea") == "tea"
    assert ask(client, full_fleet.url, "resources/subscribe", uri="a://1").json()["result"] == {}
    with client.calling(one, "greet") as asked:
        assert client.answer(two, next(asked)["id"], ADA).status_code == 202
    with sent(client, one, "endless") as events, hearing(client, full_fleet.url):
        next(events)
        next(events)
        kinds = {"alive", "session", "session_ended", "session_state", "client_request"}
        keys = asking_redis.ask("keys", "full:*").split()
        assert {key.split(":")[1] for key in keys} >= kinds | {"call", "call_events"}
        assert any(asking_redis.ask("hexists", key, "round") == "1" for key in keys if ":call:" in key)
        for key in asking_redis.ask("keys", "*").split():
            seconds = int(asking_redis.ask("ttl", key))  # -1: the key stays for ever; -2: it has just expired
            assert seconds == -2 or 0 <= seconds <= 86400, key
