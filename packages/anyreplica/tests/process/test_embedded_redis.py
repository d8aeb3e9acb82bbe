"""Tests of the stand-in for Redis: it answers as redis-server does, to several connections at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from anyreplica import Settings
from anyreplica.process.embedded_redis import EmbeddedRedis, encoded
from anyreplica.process.local_redis import missing_urls
from tests.replicas import RedisServer


def client_of(path: Path) -> Any:
    """Return a client of the stand-in. Its type is `Any`, because redis-py types replies as awaitable or not."""
    return Redis.from_url(f"unix://{path}/redis.sock?protocol=2")


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """Run a stand-in with two connections, for at most 20 seconds."""
    server = EmbeddedRedis(str(path / "redis.sock"))
    try:
        async with asyncio.timeout(20), client_of(path) as one, client_of(path) as other:
            yield one, other
    finally:
        await asyncio.to_thread(server.close)


pytestmark = pytest.mark.anyio

COMMANDS: list[tuple[Any, ...]] = [
    ("SET", "word", "a\r\nb", "EX", 100),
    ("SET", "word", "c", "NX"),
    ("GET", "word"),
    ("GET", "nothing"),
    ("TTL", "word"),
    ("HSET", "hash", "a", 1, "b", "2"),
    ("HINCRBY", "hash", "a", 4),
    ("HMGET", "hash", "a", "c"),
    ("HGETALL", "hash"),
    ("ZADD", "set", 1.5, "x", 2, "y"),
    ("ZRANGE", "set", 0, -1, "WITHSCORES"),
    ("ZSCORE", "set", "x"),
    ("ZCOUNT", "set", 2, "+inf"),
    ("RPUSH", "list", "a", "b"),
    ("LRANGE", "list", 0, -1),
    ("XADD", "stream", "1-1", "field", "value"),
    ("XGROUP", "CREATE", "stream", "group", "0"),
    ("XREADGROUP", "GROUP", "group", "me", "COUNT", 9, "STREAMS", "stream", ">"),
    ("XREADGROUP", "GROUP", "group", "me", "BLOCK", 1, "STREAMS", "stream", ">"),
    ("XACK", "stream", "group", "1-1"),
    ("XAUTOCLAIM", "stream", "group", "other", 0, "0-0"),
    ("EVAL", "return {redis.call('GET', KEYS[1]), ARGV[1] + 1, false}", 1, "word", 2),
    ("EVAL", "return redis.error_reply('OWN text')", 0),
    ("EVAL", "return #redis.call('TIME')", 0),
    ("EVALSHA", "0" * 40, 0),
    ("HGET", "word", "a"),
    ("XGROUP", "CREATE", "stream", "group", "0"),
    ("PUBLISH", "channel", "x"),
    ("GETRANGE", "word"),
]


async def replies(client: Any) -> list[Any]:
    """Return the reply to each command, or the text of its error."""
    found = []
    for command in COMMANDS:
        try:
            found.append(await client.execute_command(*command))
        except ResponseError as error:
            found.append(f"{type(error).__name__}: {str(error).partition(' script:')[0][:40]}")
    return found


@pytest.mark.needs("redis")
async def test_replies_are_those_of_redis(tmp_path: Path, redis_server: RedisServer) -> None:
    """The stand-in gives the same reply as redis-server, also after an error."""
    async with connected(tmp_path) as (one, _), Redis.from_url(redis_server.url, protocol=2) as real:
        for command, reply, expected in zip(COMMANDS, await replies(one), await replies(real), strict=True):
            assert reply == expected, command


async def test_an_error_does_not_end_the_connection(tmp_path: Path) -> None:
    """A client whose script is unknown gets NOSCRIPT, and sends the script on the same connection."""
    async with connected(tmp_path) as (one, _):
        own = await one.client_id()
        assert await one.register_script("return ARGV[1]")(args=["x"]) == b"x"
        assert await one.client_id() == own


async def reading(consumer: str, client: Any) -> None:
    """Wait until a consumer has begun to read."""
    async with asyncio.timeout(10):
        names: list[bytes] = []
        while consumer.encode() not in names:
            names = [each["name"] for each in await client.xinfo_consumers("queue", "workers")]


async def test_a_blocked_read_gets_a_message_of_another_connection(tmp_path: Path) -> None:
    """A read that waits gets the next message. A client that has left gets none."""
    async with connected(tmp_path) as (one, other):
        await other.xgroup_create("queue", "workers", mkstream=True)
        async with client_of(tmp_path) as gone:
            left = asyncio.create_task(gone.xreadgroup("workers", "gone", {"queue": ">"}, block=10_000))
            await reading("gone", other)
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)
        waiting = asyncio.create_task(one.xreadgroup("workers", "here", {"queue": ">"}, block=10_000))
        await reading("here", other)
        identity = await other.xadd("queue", {"job": "1"})
        assert await waiting == [[b"queue", [(identity, {b"job": b"1"})]]]


async def test_a_closed_connection_leaves_nothing(tmp_path: Path) -> None:
    """A message reaches a subscriber on another connection, until it has left and is no longer a client."""
    async with connected(tmp_path) as (one, _):
        async with client_of(tmp_path) as gone, gone.pubsub() as channel:
            await channel.subscribe("news")
            assert (await channel.get_message(timeout=60))["type"] == "subscribe"
            await gone.client_setname("gone")
            assert await one.publish("news", "hello") == 1
            assert (await channel.get_message(timeout=60))["data"] == b"hello"
            assert "gone" in [client["name"] for client in await one.client_list()]
        async with asyncio.timeout(10):
            while "gone" in [client["name"] for client in await one.client_list()]:  # noqa: ASYNC110  # see above
                await asyncio.sleep(0.01)
        assert await one.publish("news", "hello") == 0


def test_errors_keep_their_code() -> None:
    """A client reads the code of an error from its first word."""
    assert encoded(ResponseError("wrong number")) == b"-ERR wrong number\r\n"
    assert encoded(ResponseError("BUSYGROUP exists")) == b"-BUSYGROUP exists\r\n"
    assert encoded(ResponseError("two\r\nlines")) == b"-ERR two lines\r\n"


@pytest.mark.parametrize(
    ("given", "jobs", "expected"),
    [
        ({}, True, ["REDIS_URL", "JOBS_URL"]),
        ({}, False, ["REDIS_URL"]),
        ({"REDIS_URL": "redis://one"}, True, ["JOBS_URL"]),
        ({"JOBS_URL": "memory://", "REDIS_URL": ""}, True, ["REDIS_URL"]),
        ({"JOBS_URL": "redis://one", "REDIS_URL": "redis://one"}, True, []),
    ],
)
def test_only_unset_variables_name_the_local_redis(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], jobs: bool, expected: list[str]
) -> None:
    """A variable that the operator has set keeps its value."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert missing_urls(Settings.load(), jobs=jobs) == expected
