"""Tests of session ids: what they contain, and who can use them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from hypothesis import given
from hypothesis import strategies as st

from anyreplica import Settings, create_app
from anyreplica.features.keys.key import hash_of
from anyreplica.features.sessions.session import Session, SessionIds
from anyreplica.http.responses import Refused
from anyreplica.testing import replica
from tests.calls import BOTH, HEADERS, get, legacy, post, request, text
from tests.replicas import Fleet, running
from tests.sessions.client import ADA, VERSION, AskedClient, said, start

OLD, NEW = "the-old-key-that-all-replicas-share", "the-new-key-that-all-replicas-share"
INFO = {"name": "test", "version": "1"}
ASKING = {"HANDSHAKE_SESSIONS": "ask", "MCP_COMPONENTS": "tests.packs.asking"}


def ids(*keys: str, audience: str = "server", seconds: float = 60) -> SessionIds:
    """Return the session ids of a replica."""
    return SessionIds(keys or [OLD], audience, seconds)


def opened(sealed: str, replica: SessionIds, owner: str = "alice") -> Session:
    """Open a session id that `alice` got."""
    return replica.open(sealed, owner)


def sealed_by(replica: SessionIds, capabilities: dict[str, Any] | None = None) -> str:
    """Return a session id of `alice`."""
    return replica.seal(VERSION, INFO, capabilities or {}, "alice")


def test_any_replica_opens_a_session() -> None:
    """A replica reads the session from the id if it still has the key that sealed the id, also after a rotation."""
    old, both, new = ids(OLD), ids(NEW, OLD), ids(NEW)
    session = opened(sealed_by(old, {"roots": {"listChanged": True}}), both)
    assert session.version == VERSION
    assert session.client.client_info.name == "test"
    assert session.client.capabilities.roots is not None
    assert opened(sealed_by(both), new).version == VERSION
    assert sealed_by(old) != sealed_by(old)


@pytest.mark.parametrize(
    ("sealed", "replica"),
    [
        (sealed_by(ids(OLD)), ids(NEW)),
        (sealed_by(ids(OLD)), ids(OLD, audience="another-server")),
        (sealed_by(ids(OLD, seconds=-1)), ids(OLD)),
        ("", ids(OLD)),
        ("v1.AAAA", ids(OLD)),
        ("x" * 100_000, ids(OLD)),
    ],
    ids=["other key", "other server", "expired", "empty", "short", "long"],
)
def test_other_ids_are_unknown(sealed: str, replica: SessionIds) -> None:
    """An id that was not sealed for this server, or that has expired, gets HTTP 404: the client must start again."""
    with pytest.raises(Refused, match="send initialize") as refused:
        opened(sealed, replica)
    assert refused.value.status == 404


@given(st.text(), st.integers(min_value=0))
def test_a_changed_id_is_unknown(inserted: str, place: int) -> None:
    """A replica refuses an id that was changed in any way."""
    replica = ids()
    sealed = sealed_by(replica)
    place %= len(sealed)
    changed = sealed[:place] + inserted + sealed[place + len(inserted) :]
    if changed != sealed:
        with pytest.raises(Refused):
            opened(changed, replica)


@given(st.text())
def test_an_id_is_for_its_caller_only(owner: str) -> None:
    """Another caller gets HTTP 404, also after the right caller has used the id."""
    replica = ids()
    sealed = sealed_by(replica)
    opened(sealed, replica)
    if owner != "alice":
        with pytest.raises(Refused) as refused:
            opened(sealed, replica, owner)
        assert refused.value.status == 404


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.text(min_size=50, max_size=5000)), min_size=1))
def test_an_id_has_a_limited_length(experimental: dict[str, Any]) -> None:
    """Large capabilities do not make a large id, and the capabilities that the server uses stay in it."""
    replica = ids()
    wanted = {"elicitation": {"url": {}}, "sampling": {"tools": {"more": "x" * 3000}}, "roots": {"listChanged": True}}
    sealed = replica.seal(VERSION, {**INFO, "title": "x" * 3000}, {"experimental": experimental, **wanted}, "alice")
    assert len(sealed) <= 4096
    capabilities = opened(sealed, replica).client.capabilities
    assert capabilities.elicitation is not None
    assert capabilities.elicitation.url is not None
    assert capabilities.elicitation.form is None
    assert capabilities.sampling is not None
    assert capabilities.sampling.tools is not None
    assert capabilities.roots is not None


@pytest.mark.needs("redis")
def test_an_ended_session_is_unknown_everywhere(asking_fleet: Fleet) -> None:
    """After DELETE at one replica, all replicas refuse lists, calls, answers and another DELETE with this id."""
    client = start(asking_fleet.url)
    assert client.ended(asking_fleet.urls[0]).status_code == 204
    for url in asking_fleet.urls:
        assert legacy(url, "tools/call", {"name": "greet"}, **client.headed()).status_code == 404
        assert legacy(url, "tools/list", {}, **client.headed()).status_code == 404
        assert client.answer(url, "anything", ADA).status_code == 404
        assert client.ended(url).status_code == 404


@pytest.mark.needs("redis")
def test_a_plain_call_does_not_open_the_session(asking_fleet: Fleet) -> None:
    """Only a tool with a Context, which may ask, needs a session: an unknown session id then gets HTTP 404."""
    headers = {"Mcp-Session-Id": "x"}
    reply = legacy(asking_fleet.url, "tools/call", {"name": "nap", "arguments": {"seconds": 0}}, **headers)
    assert text(reply.json()["result"]) == "0"
    reply = legacy(asking_fleet.url, "tools/call", {"name": "number", "arguments": {}}, **headers)
    assert reply.status_code == 404


@pytest.mark.needs("redis")
def test_get_is_refused_without_streams_of_their_own(asking_fleet: Fleet) -> None:
    """With HANDSHAKE_SESSIONS=ask there is no stream outside of calls, so GET gets HTTP 405."""
    reply = get(f"{asking_fleet.url}/mcp", headers=start(asking_fleet.url).headed())
    assert reply.status_code == 405
    assert reply.headers["Allow"] == "POST, DELETE"


@pytest.mark.needs("redis")
def test_a_malformed_answer_is_refused(asking_fleet: Fleet) -> None:
    """An answer without a proper result or error gets HTTP 400, and the call goes on waiting for a proper one."""
    client = start(asking_fleet.url)
    with client.calling(asking_fleet.urls[0], "greet") as messages:
        question = next(messages)
        for malformed in (
            {"result": "text"},
            {"error": {"code": "1", "message": "text"}},
            {"error": {"code": 1}},
            {"result": None},
            {"result": {}, "error": {"code": 1, "message": ""}},
        ):
            assert client.reply(asking_fleet.urls[1], question["id"], malformed).status_code == 400, malformed
        assert client.answer(asking_fleet.urls[1], question["id"], ADA).status_code == 202
        assert said(next(messages)) == "Hello, Ada!"


@pytest.mark.needs("redis")
def test_only_the_first_answer_of_the_right_session_counts(asking_fleet: Fleet) -> None:
    """Answers of another session, to unknown requests and after the first one are refused, without effect."""
    client, stranger = start(asking_fleet.url), start(asking_fleet.url)
    eve = {"action": "accept", "content": {"value": "Eve"}}
    with client.calling(asking_fleet.urls[0], "two_at_once") as messages:
        first, second = next(messages), next(messages)
        for url in asking_fleet.urls:
            assert stranger.answer(url, first["id"], eve).status_code == 400
            assert client.answer(url, "made-up", eve).status_code == 400
            assert client.answer(url, 7, eve).status_code == 400
        assert client.answer(asking_fleet.urls[1], first["id"], ADA).status_code == 202
        for url in asking_fleet.urls:
            assert client.answer(url, first["id"], eve).status_code == 400
        assert client.answer(asking_fleet.urls[2], second["id"], ADA).status_code == 202
        assert said(next(messages)) == "Ada and Ada"
    no_session = post(asking_fleet.url, json={"jsonrpc": "2.0", "id": "x", "result": {}}, headers=HEADERS)
    assert no_session.status_code == 400
    assert "Mcp-Session-Id is missing" in no_session.text


@pytest.mark.servers
def test_a_session_is_for_its_caller_only(tmp_path: Path) -> None:
    """A session id is no credential: another caller gets HTTP 404, and no caller without a key gets in."""
    keys = {"alice": "a" * 40, "bob": "b" * 40}
    file = tmp_path / "keys"
    file.write_text("".join(json.dumps({"id": name, "hash": hash_of(key)}) + "\n" for name, key in keys.items()))
    with running(tmp_path, 1, **ASKING, AUTH_ENABLED="true", API_KEYS_FILE=str(file)) as alone:
        client = start(alone.url, Authorization=f"Bearer {keys['alice']}")
        stolen = AskedClient(client.session, {"Authorization": f"Bearer {keys['bob']}"})
        with client.calling(alone.url, "greet") as messages:
            question = next(messages)
            assert stolen.answer(alone.url, question["id"], ADA).status_code == 404
            assert stolen.ended(alone.url).status_code == 404
            assert AskedClient(client.session).answer(alone.url, question["id"], ADA).status_code == 401
            assert client.answer(alone.url, question["id"], ADA).status_code == 202
            assert said(next(messages)) == "Hello, Ada!"
        assert legacy(alone.url, "tools/call", {"name": "greet"}, **stolen.headed()).status_code == 404


@pytest.mark.servers
@pytest.mark.needs("redis")
def test_refused_answers_count_for_the_rate_limit(tmp_path: Path) -> None:
    """Answers that no call waits for use up the rate of their caller. An answer that a call waits for does not."""
    with running(tmp_path, 1, **ASKING, RATE_LIMIT="10/h", RATE_BURST="10", RATE_CONCURRENT="1") as alone:
        client = start(alone.url)
        for _ in range(3):
            with client.calling(alone.url, "greet") as messages:
                assert client.answer(alone.url, next(messages)["id"], ADA).status_code == 202
                assert said(next(messages)) == "Hello, Ada!"
        statuses = [client.answer(alone.url, "made-up", ADA).status_code for _ in range(12)]
        assert set(statuses) == {400, 429}
        assert statuses[0] == 400


class _Slow(Middleware):
    """Middleware that takes longer than FIRST_EVENT_SECONDS."""

    async def on_initialize(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        await asyncio.sleep(0.1)
        return await call_next(context)


@pytest.mark.parametrize(
    "settings",
    [
        {"handshake_sessions": "ask"},
        {"handshake_sessions": "ask", "json_response": "false"},
        {"stateless_http": False},
        {"stateless_http": False, "json_response": "false"},
    ],
)
def test_the_reply_to_initialize_has_the_session_id(settings: dict[str, Any]) -> None:
    """The head of the reply has the session id, even if the reply is an event stream or takes long."""
    opening = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": INFO}
    mcp = FastMCP("server", middleware=[_Slow()])
    with replica(lambda: create_app(mcp, Settings(mcp_components=(), first_event_seconds=0.01, **settings))) as client:
        reply = client.http.post("/mcp", json=request("initialize", opening), headers={"Accept": BOTH})
        assert reply.status_code == 200
        assert reply.headers["mcp-session-id"]


class _Telling(Middleware):
    """Middleware that sends log messages of 40 KiB, 20 KiB and 40 KiB before the result of `initialize`."""

    async def on_initialize(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        assert context.fastmcp_context is not None
        for letter, kibibytes in (("a", 40), ("b", 20), ("c", 40)):
            await context.fastmcp_context.log(letter * kibibytes * 1024)
        return await call_next(context)


@pytest.mark.parametrize("accept", [BOTH, "application/json"])
@pytest.mark.parametrize("mode", ["ask", "full"])
def test_messages_wait_for_the_session_id(mode: str, accept: str) -> None:
    """What a server sends during `initialize` comes before its result, up to 64 KiB, if the client reads events."""
    opening = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": INFO}
    mcp = FastMCP("server", middleware=[_Telling()])
    settings: dict[str, Any] = {"handshake_sessions": mode}
    with replica(lambda: create_app(mcp, Settings(mcp_components=(), **settings))) as client:
        reply = client.http.post("/mcp", json=request("initialize", opening), headers={"Accept": accept})
    assert reply.status_code == 200
    assert reply.headers["mcp-session-id"]
    if accept != BOTH:
        assert reply.json()["result"]["serverInfo"]["name"] == "server"
        return
    *told, last = [json.loads(line.removeprefix("data: ")) for line in reply.text.splitlines() if "data: " in line]
    assert [each["params"]["data"]["msg"][0] for each in told] == ["a", "b"]
    assert last["result"]["serverInfo"]["name"] == "server"
