"""Tests of nonces: each one is accepted only once by all replicas together."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from anyreplica import Settings
from anyreplica.features.signatures.nonces import Nonces, NoncesFull
from anyreplica.shared.redis import connect
from tests.ratelimit.test_bucket import Clock
from tests.replicas import RedisServer
from tests.signing.calls import Call, check, refusal, signatures

CALL = Call().signed()
REPLAYED = "The nonce was used before; sign each request with a new nonce, also a retry."


async def taken(nonces: Nonces, *names: str, key: str = "ci") -> list[bool]:
    """Return the results of using nonces one after the other."""
    return [await nonces.claim(key, name) for name in names]


@pytest.mark.anyio
async def test_each_key_has_its_own_nonces() -> None:
    """A nonce is accepted once. Each key has its own nonces, so that two clients can use the same nonce."""
    nonces = Nonces(None, "test", 65)
    for key, names in (("a", ("b", "bb")), ("ab", "b"), ("b", "a")):
        assert all(await taken(nonces, *names, key=key))
    for key in ("a", "ab"):
        assert await taken(nonces, "b", key=key) == [False]


@pytest.mark.anyio
async def test_a_nonce_is_removed_after_its_last_valid_moment() -> None:
    """A nonce is removed when no signature with it can be valid any more, and not earlier."""
    clock = Clock()
    begin = clock.now
    nonces = Nonces(None, "test", 64.5, clock=clock)
    for now, free in ((0, True), (64.5, False), (65.9, False), (66, True), (66, False)):
        clock.now = begin + now
        assert await taken(nonces, "one nonce") == [free]


@pytest.mark.anyio
async def test_a_full_memory_refuses(caplog: pytest.LogCaptureFixture) -> None:
    """A full memory refuses new nonces, and logs this once, until old ones have expired; it removes none earlier."""
    clock = Clock()
    nonces = Nonces(None, "test", 59, most=3, clock=clock)
    assert await taken(nonces, *"abc") == [True] * 3
    for name in "def":
        with pytest.raises(NoncesFull):
            await taken(nonces, name)
    assert await taken(nonces, *"abc") == [False] * 3
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Nonce limit reached: 3 nonces in memory" in caplog.text
    clock.now += 60
    assert await taken(nonces, *"abc") == [True] * 3
    with pytest.raises(NoncesFull):
        await taken(nonces, "d")
    assert len(caplog.records) == 2


def test_a_full_memory_has_a_refusal_of_its_own() -> None:
    """If the replica can't store another nonce, the refusal says so, and not that the nonce was used before."""
    checking = signatures(nonces=Nonces(None, "test", 100, most=1))
    assert check(CALL, checking) == "ci"
    text = "Too many signed requests: this replica stores 1 nonces at most; sign again and retry later."
    assert refusal(Call().signed(), checking) == text
    assert refusal(CALL, checking) == REPLAYED


def test_a_replay_is_refused() -> None:
    """A repeated request is refused, and also another one with its nonce. A refused request does not use its nonce."""
    checking = signatures()
    assert "does not match the request body" in refusal(Call(body=b"other", headers=CALL.headers), checking)
    assert "does not match" in refusal(Call(method="PUT", headers=CALL.headers), checking)
    assert check(CALL, checking) == "ci"
    assert refusal(CALL, checking) == REPLAYED
    assert check(Call().signed(), checking) == "ci"
    names = [('"@method"', "GET"), ('"@path"', "/mcp")]
    call = Call(method="GET", body=b"")
    assert check(call.signed_over(names), checking) == "ci"
    assert refusal(call.signed_over(names[::-1]), checking) == REPLAYED


@contextlib.asynccontextmanager
async def replicas(server: RedisServer, count: int, seconds: float = 65) -> AsyncIterator[list[Nonces]]:
    """Return the nonces of several replicas, each with its own connection to Redis."""
    clients = [Redis.from_url(server.url, socket_connect_timeout=1, socket_timeout=1) for _ in range(count)]
    try:
        yield [Nonces(client, "test", seconds) for client in clients]
    finally:
        for client in clients:
            await client.aclose()


async def accepted(call: Call, each: list[Nonces]) -> int:
    """Return how many replicas accept a request that all of them receive at the same time."""
    checks = [signatures(nonces=nonces).check(call.scope, call.body) for nonces in each]
    answers = await asyncio.gather(*checks, return_exceptions=True)
    assert {str(answer) for answer in answers} <= {"ci", REPLAYED}
    return answers.count("ci")


@pytest.mark.anyio
async def test_a_replica_accepts_one_of_many_equal_requests() -> None:
    """If a request comes many times at once, a replica accepts it once."""
    assert await accepted(CALL, [Nonces(None, "test", 65)] * 50) == 1


@pytest.mark.anyio
@pytest.mark.needs("redis")
async def test_all_replicas_accept_one_of_many_equal_requests(redis_server: RedisServer) -> None:
    """If a request comes many times, all replicas together accept it once, at once or one after the other.

    The key in Redis expires, and contains neither the id of the signing key nor the nonce.
    """
    async with replicas(redis_server, 3, seconds=65.5) as (one, two, three):
        for _ in range(5):
            assert await accepted(Call().signed(), [one, two, three, one, two] * 10) == 1
        assert await accepted(CALL, [one]) == 1
        assert await accepted(CALL, [two]) == 0
        assert await accepted(Call().signed(), [two]) == 1
    keys = redis_server.ask("keys", "*").splitlines()
    assert len(keys) == 7
    for key in keys:
        prefix, kind, mark = key.split(":")
        assert (prefix, kind, len(mark)) == ("test", "nonce", 64)
        assert 0 < int(redis_server.ask("ttl", key)) <= 67
        assert redis_server.ask("get", key) == ""


@pytest.mark.anyio
@pytest.mark.needs("redis")
async def test_without_redis_a_replica_refuses_its_own_nonces(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """While Redis is down and afterwards, a replica refuses each nonce that it has accepted itself.

    The log warns once that other replicas do not share these nonces, and once that they do again.
    """
    before, during, after = (Call().signed() for _ in range(3))
    async with replicas(redis_server, 2) as (one, other):
        assert await accepted(before, [one, other]) == 1
        await asyncio.to_thread(redis_server.kill)
        assert await accepted(before, [one]) == 0
        assert await accepted(during, [one] * 10) == 1
        assert await accepted(during, [one]) == 0
        assert await accepted(during, [other]) == 1
        for _ in range(20):
            assert await accepted(Call().signed(), [one]) == 1
        await asyncio.to_thread(redis_server.start)
        await _shared_again(one, other)
        assert await accepted(during, [one]) == 0
        assert await accepted(after, [one, other]) == 1
    warnings = [record for record in caplog.records if record.name == "anyreplica.features.signatures.nonces"]
    assert len(warnings) == 4  # two of each replica
    assert "a replica refuses a nonce only if it accepted that nonce itself" in warnings[0].getMessage()


async def _shared_again(one: Nonces, other: Nonces) -> None:
    """Wait until one replica refuses what another has accepted."""
    deadline = time.monotonic() + 20
    while await accepted(Call().signed(), [one, other]) != 1:
        if time.monotonic() > deadline:
            pytest.fail("the replicas do not share nonces in Redis again within 20 s")
        await asyncio.sleep(0.05)


@pytest.mark.anyio
@pytest.mark.needs("redis")
async def test_a_redis_that_hangs_stops_no_request(redis_server: RedisServer) -> None:
    """While Redis hangs, requests are accepted. Afterwards, the replicas share the nonces again."""
    client = connect(Settings(redis_url=SecretStr(redis_server.url)))
    assert client is not None
    async with client:
        nonces = Nonces(client, "test", 65)
        assert await nonces.claim("ci", "before")
        redis_server.hang()
        assert all(await asyncio.gather(*[nonces.claim("ci", f"during {number}") for number in range(20)]))
        redis_server.go_on()
        assert not await nonces.claim("ci", "before")
