"""The values that tools keep for sessions have limits by value, caller and store, and end with their session."""

import asyncio
import contextlib
import gc
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from fastmcp import Context, FastMCP
from fastmcp.server.server import StateValue
from fastmcp.server.transforms import visibility
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from key_value.aio.stores.memory import MemoryStore
from redis.asyncio import Redis

from anyreplica import Settings, create_app
from anyreplica.features.keys.key import hash_of
from anyreplica.features.sessions import ended_sessions
from anyreplica.mcp.compat import state_store
from anyreplica.mcp.compat.state_store import StateStore
from anyreplica.shared.session_state import VALUE_BYTES, LocalState, RedisState, StateLimits, StateValues
from anyreplica.testing import Client, replica
from conftest import until
from tests.calls import BOTH, ENVELOPE, request
from tests.replicas import RedisServer

pytestmark = pytest.mark.anyio

MIB = 1 << 20
KEYS = {name: f"a-key-with-more-than-32-characters-of-{name}" for name in ("ada", "bob")}
LIMITS = StateLimits(8 * 2000)
STORES = [
    "in memory",
    "in the stand-in",
    pytest.param("in Redis", marks=[pytest.mark.needs("redis"), pytest.mark.servers]),
]
Step = tuple[str, str, str, int]
"""What to do, a group, a name, and the size of a new value."""
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete", "drop"]),
        st.sampled_from("abcdef"),
        st.sampled_from(["", "x", "y"]),
        st.integers(0, 2000),
    ),
    max_size=60,
)


@contextlib.asynccontextmanager
async def opened(kind: str, asking: pytest.FixtureRequest) -> AsyncIterator[StateValues]:
    """Open an empty store."""
    if kind == "in memory":
        yield LocalState(LIMITS)
        return
    if kind == "in the stand-in":
        client: Any = FakeAsyncRedis(version=(7,))
    else:
        server: RedisServer = asking.getfixturevalue("redis")
        client = Redis.from_url(server.url)
    async with client:
        yield RedisState(client, secrets.token_hex(4), LIMITS)


@pytest.mark.parametrize("kind", STORES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
async def test_the_limits_hold(
    kind: str, request: pytest.FixtureRequest, steps: list[tuple[str, str, str, int]]
) -> None:
    """The store behaves like a model that adds up all values, whatever is written and removed in whatever order."""
    model = dict[tuple[str, str], bytes]()

    def used(groups: str) -> int:
        return sum(len(name) + len(text) + VALUE_BYTES for (group, name), text in model.items() if group in groups)

    async with opened(kind, request) as store:
        for step, group, name, size in steps:
            mine = "ab" if group in "ab" else "cdef"
            if step == "put":
                text, old = b"v" * size, model.pop((group, name), None)
                cost = len(name) + size + VALUE_BYTES
                fits = used(mine) + cost <= LIMITS.by_caller and used("abcdef") + cost <= LIMITS.most
                fits = cost <= LIMITS.by_value and (fits or (old is not None and len(old) >= size))
                assert await store.put(group, name, text, mine, 60) == fits
                if fits:
                    model[group, name] = text
                elif old is not None:
                    model[group, name] = old
            elif step == "delete":
                model.pop((group, name), None)
                await store.delete(group, name)
            else:
                model = {key: text for key, text in model.items() if key[0] != group}
                await store.drop(group)
            assert await store.get(group, name) == model.get((group, name))
        for group in "abcdef":
            await store.drop(group)
        for number in range(LIMITS.most // LIMITS.by_value):
            assert await store.put(f"{number}", "", b"v" * (LIMITS.by_value - VALUE_BYTES), f"{number % 2}", 60)
        assert not await store.put("more", "", b"", "another", 60)


@pytest.mark.parametrize("kind", STORES)
async def test_values_expire_with_their_group(kind: str, request: pytest.FixtureRequest) -> None:
    """A group expires at the time of its last change, and its bytes are free again. `get` can renew the time."""
    async with opened(kind, request) as store:
        text, began = b"v" * (LIMITS.by_value - VALUE_BYTES), time.monotonic()
        for number in range(4):
            assert await store.put(f"{number}", "", text, "one", 2)
        assert not await store.put("more", "", b"", "one", 2)
        while await store.get("0", "") is not None:
            assert await store.get("3", "", 100) == text or time.monotonic() - began > 1.9
            await asyncio.sleep(0.05)
        for number in range(3):
            until_free = time.monotonic() + 10
            while not await store.put(f"new {number}", "", text, "one", 60):
                assert time.monotonic() < until_free
                await asyncio.sleep(0.05)
        assert not await store.put("more", "", b"", "one", 60), "the renewed one has stayed"
        assert await store.get("3", "") == text


@pytest.mark.needs("redis")
@pytest.mark.servers
async def test_every_key_of_the_state_expires(redis: RedisServer) -> None:
    """Redis keeps no value and no counter for ever."""
    async with Redis.from_url(redis.url) as client:
        prefix = secrets.token_hex(4)
        store = RedisState(client, prefix, LIMITS)
        assert await store.put("group", "name", b"text", "one", 60)
        keys = await client.keys(f"{prefix}*")
        assert len(keys) == 3
        assert all([await client.ttl(key) > 0 for key in keys])
        await store.delete("group", "name")
        assert await client.keys(f"{prefix}*") == []


def server() -> FastMCP:
    """Return a server whose tools keep state."""
    mcp = FastMCP("keeping")

    @mcp.tool
    async def remember(size: int, ctx: Context, name: str = "value") -> int:
        await ctx.set_state(name, "v" * size)
        return len(await ctx.get_state(name))

    @mcp.tool
    async def recall(ctx: Context, name: str = "value") -> int:
        return len(await ctx.get_state(name) or "")

    return mcp


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> list[StateStore]:
    """The stores that replicas of the test make."""
    found, original = list[StateStore](), StateStore.__init__

    def remembered(self: StateStore, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        found.append(self)

    monkeypatch.setattr(StateStore, "__init__", remembered)
    return found


class Caller:
    """A client with a session."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._headers = {"Accept": BOTH, "Authorization": f"Bearer {KEYS[name]}", "MCP-Protocol-Version": "2025-11-25"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        reply = client.http.post("/mcp", json=request("initialize", hello), headers=self._headers)
        self._headers["Mcp-Session-Id"] = reply.headers["Mcp-Session-Id"]

    def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool, and return the text of its result or error."""
        body = request("tools/call", {"name": tool, "arguments": arguments})
        reply = self._client.http.post("/mcp", json=body, headers=self._headers)
        found: str = reply.json()["result"]["content"][0]["text"]
        return found

    def end(self) -> None:
        """End the session."""
        assert self._client.http.delete("/mcp", headers=self._headers).status_code == 204


@contextlib.contextmanager
def keeping(**values: Any) -> Iterator[Client]:
    """Run a replica whose sessions keep at most 1 MiB."""
    given: dict[str, Any] = {"mcp_components": (), "handshake_sessions": "full", "session_state_bytes": MIB}
    with replica(lambda: create_app(server(), Settings(**given | values))) as client:
        yield client


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Any]:
    """Settings with the keys of two callers."""
    lines = [json.dumps({"id": name, "hash": hash_of(key)}) + "\n" for name, key in KEYS.items()]
    (tmp_path / "keys").write_text("".join(lines))
    return {"auth_enabled": True, "api_keys_file": tmp_path / "keys"}


def test_the_state_of_sessions_is_limited(keys: dict[str, Any]) -> None:
    """A caller with many sessions gets an error beyond its share, and others still keep state."""
    with keeping(**keys) as client:
        error = Caller(client, "ada").call("remember", size=MIB // 8)
        assert "no room for" in error
        assert "131072 bytes for one value, 524288 bytes for all values of one caller" in error
        assert "1048576 bytes for all values (SESSION_STATE_BYTES)" in error
        sessions = [Caller(client, "ada") for _ in range(6)]
        texts = [each.call("remember", size=100_000) for each in sessions]
        assert texts[:5] == ["100000"] * 5
        assert "no room" in texts[5]
        assert sessions[0].call("remember", size=100_000) == "100000", "the value takes the place of the older one"
        assert Caller(client, "bob").call("remember", size=100_000) == "100000"
        sessions[1].end()
        assert sessions[5].call("remember", size=100_000) == "100000", "an ended session has no state"
        assert sessions[5].call("recall") == "100000"


def test_state_lasts_as_long_as_its_session(store: list[StateStore], keys: dict[str, Any]) -> None:
    """The state of a session expires with the session, and not a day after its last change."""
    with keeping(handshake_session_seconds=100, **keys) as client:
        one = Caller(client, "ada")
        assert one.call("remember", size=10) == "10"
        (entry,) = store[0]._local._groups._entries.values()
        assert 0 < entry.expires - time.monotonic() <= 100


def test_a_session_without_a_note_of_its_end_loses_its_state(
    keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit of ended sessions, a session id stays valid, but what the session has kept is removed."""
    monkeypatch.setattr(ended_sessions, "ENDED_BYTES", MIB // 4)  # so that there is room for one note
    with keeping(resume_bytes=MIB, **keys) as client:
        Caller(client, "ada").end()
        last = Caller(client, "ada")
        assert last.call("remember", size=10) == "10"
        reply = client.http.delete("/mcp", headers=last._headers)
        assert reply.status_code == 503
        assert "stays valid until it expires" in reply.text
        assert last.call("recall") == "0"


@pytest.mark.parametrize("sessions", ["off", "ask", "full"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_state_without_a_session_ends_with_its_request(store: list[StateStore], sessions: str, version: str) -> None:
    """A call without a session keeps its state until its end, and leaves nothing in the replica."""
    with keeping(handshake_sessions=sessions) as client:
        for _ in range(3):
            params: dict[str, Any] = {"name": "remember", "arguments": {"size": 100_000}}
            headers = {"Accept": BOTH, "MCP-Protocol-Version": version}
            if version >= "2026":
                headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "remember"}
                params["_meta"] = ENVELOPE
            reply = client.http.post("/mcp", json=request("tools/call", params), headers=headers)
            assert '"text":"100000"' in reply.text

            def is_empty() -> bool:
                gc.collect()
                return store[0]._local.used == 0

            until(is_empty, "the state has ended with its request")


@pytest.mark.parametrize("redis_url", [None, "redis://127.0.0.1:1"])
def test_a_request_without_a_session_needs_no_redis(redis_url: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """A replica starts and answers without its Redis, although FastMCP asks for the state of a session in each list."""
    secret: dict[str, Any] = {"request_state_keys": secrets.token_hex(32)}
    with keeping(redis_url=redis_url, **secret) as client:
        for tool in ("remember", "recall"):
            body = request("tools/call", {"name": tool, "arguments": {"size": 10} if tool == "remember" else {}})
            reply = client.http.post("/mcp", json=body, headers={"Accept": BOTH})
            assert reply.json()["result"]["isError"] is False, reply.text
        assert "remember" in client.http.post("/mcp", json=request("tools/list"), headers={"Accept": BOTH}).text
    assert [each.message for each in caplog.records if each.levelname == "ERROR" or "state" in each.message] == []


async def test_rules_are_read_only_from_a_store_with_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """FastMCP looks for the visibility rules of a session unless the store of this package is empty."""
    asked = []

    async def looked(context: Context) -> list[dict[str, Any]]:
        asked.append(context.fastmcp.name)
        return []

    monkeypatch.setattr(state_store, "_rules", looked)
    state_store.skip_empty_state()
    store = StateStore(LIMITS, None, (), keeps_state=True)
    served, brought = FastMCP("served"), FastMCP("brought", session_state_store=MemoryStore())
    for server in (served, brought):
        state_store.store_state(server, store)
    untouched = FastMCP("untouched")
    for server in (served, brought, untouched):
        assert await visibility.get_visibility_rules(Context(server)) == []
    assert asked == ["brought", "untouched"]
    assert untouched._state_storage is None
    await store.put(key="a-session:color", value=StateValue(value="red"))
    await visibility.get_visibility_rules(Context(served))
    assert asked[2:] == ["served"]
