"""Tests of what sessions keep: records and notes about ended sessions, with limits by caller and altogether."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from anyreplica.features.sessions.answers import Answers, LocalAnswers, RedisAnswers
from anyreplica.features.sessions.record_store import (
    RECORD_BYTES,
    RESOURCE,
    URI_BYTES,
    LocalRecords,
    RecordStore,
    RedisRecords,
)
from anyreplica.features.sessions.session import Session
from anyreplica.features.sessions.streams import RecordRefused, SessionRecords
from anyreplica.process.embedded_redis import EmbeddedRedis
from anyreplica.shared.notifier import Notifier, RedisNotifier
from tests.replicas import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]

KINDS = pytest.mark.parametrize("kind", ["memory", "redis", "embedded"])
MOST = 20 * RECORD_BYTES
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["level", "stream", "resource:a", "resource:" + "b" * 900, "remove", "drop"]),
        st.integers(0, 9),
        st.sampled_from("xyz"),
    ),
    max_size=60,
)


def new_session(seconds: float = 60) -> Session:
    """Return a session that ends in some seconds."""
    return Session(secrets.token_urlsafe(16), "2025-11-25", "owner", time.time() + seconds, "[{},{}]")


@contextlib.asynccontextmanager
async def client_of(kind: str, redis: RedisServer, folder: Path) -> AsyncIterator["Redis | None"]:
    """Return a client of an empty Redis: a real one, or the stand-in of local replicas. None for `memory`."""
    if kind == "memory":
        yield None
        return
    with contextlib.ExitStack() as stack:
        url = redis.url
        if kind == "embedded":
            url = f"unix://{folder}/redis"
            stack.callback(EmbeddedRedis(f"{folder}/redis").close)
        async with Redis.from_url(url, protocol=2) as client:
            await client.flushall()
            yield client


def store_of(client: "Redis | None", most: int = MOST) -> RecordStore:
    """Return a store whose records have at most some bytes."""
    return LocalRecords(most) if client is None else RedisRecords(client, "test", most)


@KINDS
async def test_one_caller_has_a_share(kind: str, redis: RedisServer, tmp_path: Path) -> None:
    """A caller over many sessions has half of all bytes. He gets them back with the ends of his sessions."""
    async with client_of(kind, redis, tmp_path) as client:
        store, sessions = store_of(client), [new_session() for _ in range(12)]
        written = [await store.write(each, "one", "level", "error") for each in sessions]
        assert written == ["written"] * 10 + ["caller"] * 2
        assert await store.write(sessions[0], "one", "level", "info") == "written", "a record that exists may change"
        assert await store.write(sessions[0], "one", f"{RESOURCE}a", "") == "caller"
        assert await store.write(sessions[0], "other", f"{RESOURCE}a", "") == "caller", "it is a record of `one`"
        assert await store.write(new_session(), "other", f"{RESOURCE}a", "") == "written"
        await store.drop(sessions[0])
        assert await store.read(sessions[0]) == {}
        await store.remove(sessions[1], "level", "error")
        assert [await store.write(new_session(), "one", "level", "error") for _ in range(3)] == ["written"] * 2 + [
            "caller"
        ]


@KINDS
async def test_the_largest_caller_makes_room(kind: str, redis: RedisServer, tmp_path: Path) -> None:
    """If all bytes are used, a small caller gets room from the largest one. No record of a small caller is lost."""
    async with client_of(kind, redis, tmp_path) as client:
        store, good = store_of(client), new_session()
        assert await store.write(good, "good", f"{RESOURCE}a", "") == "written"
        for number in range(100):
            for caller in ("one", "two"):
                await store.write(new_session(), caller, "level", f"{number}")
        assert await store.read(good) == {f"{RESOURCE}a": ""}
        assert await store.write(new_session(), "one", "level", "error") in ("caller", "server")
        for number in range(3):
            assert await store.write(good, "good", f"{RESOURCE}{number}", "") == "written"
            assert await store.write(new_session(), f"new-{number}", "level", "error") == "written"
        assert len(await store.read(good)) == 4


@KINDS
async def test_records_of_many_callers_are_limited(kind: str, redis: RedisServer, tmp_path: Path) -> None:
    """Callers with one record each cannot use more than all bytes: further ones are refused."""
    async with client_of(kind, redis, tmp_path) as client:
        store = store_of(client)
        written = [await store.write(new_session(), f"{number}", "level", "error") for number in range(22)]
        assert written == ["written"] * 20 + ["server"] * 2


@KINDS
async def test_expired_records_give_their_bytes_back(kind: str, redis: RedisServer, tmp_path: Path) -> None:
    """The bytes of a session that has expired are free again, for its caller and for all."""
    async with client_of(kind, redis, tmp_path) as client:
        store = store_of(client)
        for number in range(20):
            assert await store.write(new_session(5), f"{number % 2}", "level", "error") == "written"
        late = new_session()
        assert await store.write(late, "0", "level", "error") == "caller"
        for _ in range(300):
            if await store.write(late, "0", "level", "error") == "written":
                break
            await asyncio.sleep(0.1)
        for number in range(1, 20):
            assert await store.write(new_session(), f"{number % 2}", "level", "error") == "written"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
async def test_the_bytes_are_those_of_the_records(redis: RedisServer, steps: list[tuple[str, int, str]]) -> None:
    """After any steps, both stores have the same records, and count their bytes exactly. Every key expires."""
    async with Redis.from_url(redis.url) as client:
        await client.flushall()
        local, shared = LocalRecords(1 << 20), RedisRecords(client, "test", 1 << 20)
        sessions, stores = [new_session() for _ in range(10)], (local, shared)
        for step, number, caller in steps:
            session = sessions[number]
            for store in stores:
                if step == "drop":
                    await store.drop(session)
                elif step == "remove":
                    for name in ("stream", "resource:a", "level"):
                        await store.remove(session, name, "" if name == "resource:a" else "x")
                else:
                    value = "" if step.startswith(RESOURCE) else caller
                    assert await store.write(session, caller, step, value) == "written"
        expected = 0
        for session in sessions:
            fields = await local.read(session)
            assert await shared.read(session) == fields
            uris = [name.removeprefix(RESOURCE) for name in fields if name.startswith(RESOURCE)]
            expected += (RECORD_BYTES if fields else 0) + sum(len(uri) + URI_BYTES for uri in uris)
        assert local.shares.used == expected == int(await client.get("test:session_bytes") or 0)
        callers: Any = await client.zrange("test:session_callers", 0, -1, withscores=True)
        assert sum(pair[1] for pair in callers) == expected
        assert [await client.ttl(key) for key in await client.keys() if not 0 < await client.ttl(key) <= 60] == []


async def test_an_ended_stream_keeps_nothing(redis: RedisServer) -> None:
    """A session whose stream has ended has no record, unless it has subscriptions or a level."""
    async with Redis.from_url(redis.url) as client:
        await client.flushall()
        records, session = SessionRecords(client, "test", RedisNotifier(client, "test:wakeups"), MOST), new_session()
        await records.set_stream(session, "caller", "one")
        await records.set_stream(session, "caller", "two")
        await records.end_stream(session, "one")
        assert (await records.read(session)).stream == "two"
        await records.end_stream(session, "two")
        assert await client.keys("test:session:*") == []
        await records.subscribe(session, "caller", "a")
        await records.set_stream(session, "caller", "three")
        await records.end_stream(session, "three")
        assert (await records.read(session)).resources == {"a"}


async def test_an_error_names_the_limit() -> None:
    """The errors say which limit is reached, and what to do."""
    records = SessionRecords(None, "test", Notifier(), MOST)
    for _ in range(10):
        await records.set_level(new_session(), "one", "error")
    with pytest.raises(RecordRefused, match=r"one caller is 7680 bytes \(a quarter of RESUME_BYTES\); unsubscribe"):
        await records.subscribe(new_session(), "one", "a")
    for number in range(19):
        await records.set_level(new_session(), f"{number}", "error")
    with pytest.raises(RecordRefused, match=r"the limit is 15360 bytes \(half of RESUME_BYTES\); retry later"):
        await records.set_level(new_session(), "one more", "error")


def answers_of(client: "Redis | None", most: int) -> Answers:
    """Return a store whose notes about ended sessions have at most some bytes."""
    return LocalAnswers(most) if client is None else RedisAnswers(client, "test", RedisNotifier(client, "t"), most=most)


@KINDS
async def test_ended_sessions_are_limited(kind: str, redis: RedisServer, tmp_path: Path) -> None:
    """One caller cannot fill the store with ended sessions, nor make it forget those of another. Notes expire."""
    async with client_of(kind, redis, tmp_path) as client:
        store, soon = answers_of(client, 20 * 192), time.time() + 1
        assert await store.end("good", time.time() + 60, "good") == ""
        refused = [await store.end(f"{number}", soon, "one") for number in range(12)]
        assert refused[:10] == [""] * 10
        assert "your ended sessions have reached their limit of 1920 bytes (a quarter of RESUME_BYTES)" in refused[10]
        assert await store.end("0", soon, "one") == "", "it has ended already"
        others = [await store.end(f"{number}+", soon, f"{number}") for number in range(11)]
        assert [text == "" for text in others] == [True] * 9 + [False] * 2
        assert "all ended sessions have reached their limit of 3840 bytes" in await store.end("last", soon, "other")
        assert await store.has_ended("good")
        assert not await store.has_ended("11")
        await asyncio.sleep(3.1)
        assert not await store.has_ended("0")
        assert await store.end("11", time.time() + 60, "one") == ""
        assert await store.has_ended("good")
