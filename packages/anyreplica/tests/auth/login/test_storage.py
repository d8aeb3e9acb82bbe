"""The storage of providers, the lock and the marks of used codes, with a real Redis."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from anyreplica.features.login.shared import LoginUnavailable, SharedLock, SharedLogins, SingleUse, noting_outages
from anyreplica.features.login.storage import UNUSED_SECONDS, LoginStorage
from tests.replicas import RedisServer

pytestmark = [pytest.mark.needs("redis"), pytest.mark.anyio]

KEYS = ["the-first-key-of-the-ring-of-keys", "the-second-key-of-the-ring-of-keys"]
VALUE = {"token": "a-secret-token", "number": 7, "none": None}


@pytest.fixture
async def shared(redis_server: RedisServer) -> AsyncIterator[SharedLogins]:
    """What the replicas share about logins, in a Redis of the test."""
    async with Redis.from_url(redis_server.url) as redis:
        yield SharedLogins(redis, "name")


async def test_values_are_stored_and_removed(shared: SharedLogins) -> None:
    """The storage has all methods of key-value-aio's protocol."""
    storage = LoginStorage(shared, KEYS)
    await storage.put("key", VALUE, collection="tokens", ttl=100.5)
    assert await storage.get("key", collection="tokens") == VALUE
    assert await storage.get("key", collection="clients") is None
    assert await storage.get("key") is None
    value, seconds = await storage.ttl("key", collection="tokens")
    assert value == VALUE
    assert seconds == pytest.approx(101, abs=2)
    await storage.put_many(["a", "b"], [{"n": 1}, {"n": 2}], ttl=1000)
    assert await storage.get_many(["a", "b", "c"]) == [{"n": 1}, {"n": 2}, None]
    assert [each[0] for each in await storage.ttl_many(["a", "c"])] == [{"n": 1}, None]
    assert await storage.delete("a") is True
    assert await storage.delete("a") is False
    assert await storage.delete_many(["a", "b"]) == 1
    await storage.put("client", VALUE, collection="clients")
    assert (await storage.ttl("client", collection="clients"))[1] == pytest.approx(UNUSED_SECONDS, abs=2)
    await storage.keep("client", "clients", 2 * UNUSED_SECONDS)
    assert (await storage.ttl("client", collection="clients"))[1] == pytest.approx(2 * UNUSED_SECONDS, abs=2)
    await storage.keep("unknown", "clients", 100)
    assert await storage.get("unknown", collection="clients") is None
    await storage.put("short", VALUE, ttl=0)
    assert (await storage.ttl("short"))[1] is not None, "a value without a time to live would stay for ever"


async def test_the_keys_rotate(shared: SharedLogins) -> None:
    """The first key encrypts, and all keys decrypt. Without its key, a value counts as missing."""
    await LoginStorage(shared, KEYS[1:]).put("key", VALUE)
    assert await LoginStorage(shared, KEYS).get("key") == VALUE
    assert await LoginStorage(shared, KEYS[:1]).get("key") is None
    await LoginStorage(shared, KEYS).put("key", VALUE)
    assert await LoginStorage(shared, KEYS[:1]).get("key") == VALUE
    await LoginStorage(shared, KEYS[1:]).put("client", VALUE, collection="clients")
    await LoginStorage(shared, KEYS).keep("client", "clients", 100)
    assert await LoginStorage(shared, KEYS[:1]).get("client", collection="clients") == VALUE


async def test_a_value_is_valid_under_its_own_key_only(shared: SharedLogins) -> None:
    """A value that was copied to another key, or changed, counts as missing."""
    storage = LoginStorage(shared, KEYS)
    await storage.put("mine", VALUE, collection="tokens")
    mine, yours = (shared.key("state", "tokens", key) for key in ("mine", "yours"))
    assert await shared.redis.copy(mine, yours)
    assert await storage.get("yours", collection="tokens") is None
    sealed = await shared.redis.get(mine)
    assert isinstance(sealed, bytes)
    assert b"secret" not in sealed
    for broken in (sealed[:-2] + b"AA", sealed[:20], b"", b"\xff\x00", b"v1.x"):
        await shared.redis.set(mine, broken, ex=100)
        assert await storage.get("mine", collection="tokens") is None


def test_names_of_keys_do_not_collide() -> None:
    """Two different pairs of texts never have the same key."""
    shared = SharedLogins(Redis(), "name")
    assert shared.key("kind", "ab", "c") != shared.key("kind", "a", "bc") != shared.key("kind", "abc")


async def test_a_mark_is_set_once(shared: SharedLogins) -> None:
    """Only the first of many simultaneous requests sets a mark, and the mark expires."""
    once = SingleUse(shared)
    until = time.time() + 60
    taken = await asyncio.gather(*(once.claim("code", "a-code", until=until) for _ in range(20)))
    assert sorted(taken) == [False] * 19 + [True]
    assert await once.is_claimed("code", "a-code")
    assert not await once.is_claimed("code", "another")
    assert 55 < await shared.redis.ttl(shared.key("code", "a-code")) <= 60
    assert await once.claim("code", "of-the-past", until=0), "a mark without a future still expires"
    assert await shared.redis.ttl(shared.key("code", "of-the-past")) == 1


async def test_only_one_holds_a_lock(shared: SharedLogins) -> None:
    """A lock has one owner, is renewed while it is held, and is free after its block, also after an error."""
    inside = 0

    async def hold(seconds: float) -> None:
        nonlocal inside
        async with SharedLock(shared, "grant", "id", lease_seconds=1, renew_seconds=0.2):
            inside += 1
            assert inside == 1
            assert await shared.redis.ttl(shared.key("grant", "id")) in (0, 1), "the lease is short"
            await asyncio.sleep(seconds)
            inside -= 1

    await asyncio.gather(hold(1.6), *(hold(0.01) for _ in range(5)))
    with pytest.raises(ZeroDivisionError):
        async with SharedLock(shared, "grant", "id"):
            raise ZeroDivisionError
    assert not await shared.redis.exists(shared.key("grant", "id"))


async def test_the_lock_of_a_dead_owner_ends(shared: SharedLogins) -> None:
    """The lock of a killed replica is free after its lease, and a request waits for it."""
    await shared.redis.set(shared.key("grant", "id"), "a dead replica", ex=1)
    began = time.monotonic()
    async with SharedLock(shared, "grant", "id"):
        assert time.monotonic() - began > 0.5


async def test_a_lock_that_ended_before_its_answer_came_is_taken_again(
    shared: SharedLogins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of a slow Redis may come when the lease is over, and another request holds the lock."""
    key, taken, tries = shared.key("grant", "id"), shared.redis.set, 0

    async def slow(name: Any, value: Any, **options: Any) -> object:
        nonlocal tries
        tries += 1
        found = await taken(name, value, **options)
        if tries == 1:
            await taken(name, "another replica", px=300)
            await asyncio.sleep(0.1)
        return found

    monkeypatch.setattr(shared.redis, "set", slow)
    async with SharedLock(shared, "grant", "id", renew_seconds=0.05):
        assert await shared.redis.get(key) != b"another replica"
    assert tries > 1


async def test_a_request_does_not_wait_for_ever(shared: SharedLogins) -> None:
    """A request that waits too long for a lock fails, and leaves the owner's lock as it is."""
    await shared.redis.set(shared.key("grant", "id"), "another replica", ex=60)
    with pytest.raises(LoginUnavailable):
        async with SharedLock(shared, "grant", "id", patience_seconds=0.2):
            raise AssertionError("two owners")
    assert await shared.redis.get(shared.key("grant", "id")) == b"another replica"


async def test_a_lost_lock_is_no_outage_of_the_request(
    redis_server: RedisServer, shared: SharedLogins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Redis is lost while a lock is held, the work in the block may be done, so its reply must reach the client."""
    renewed = asyncio.Event()
    with noting_outages() as outage:
        async with SharedLock(shared, "grant", "id", renew_seconds=0.05):
            redis_server.kill()
            evaluate = shared.redis.evalsha

            async def failing(*arguments: object) -> object:
                try:
                    return await evaluate(*arguments)  # type: ignore[arg-type]
                finally:
                    renewed.set()

            monkeypatch.setattr(shared.redis, "evalsha", failing)
            await asyncio.wait_for(renewed.wait(), 20)
    assert not outage.noted


async def test_an_outage_is_noted(
    redis_server: RedisServer, shared: SharedLogins, caplog: pytest.LogCaptureFixture
) -> None:
    """Every use of Redis fails without it, and the log says so once."""
    storage, once = LoginStorage(shared, KEYS), SingleUse(shared)
    redis_server.kill()
    uses: list[Callable[[], Awaitable[object]]] = [
        lambda: storage.get("key"),
        lambda: storage.put("key", VALUE),
        lambda: storage.delete("key"),
        lambda: once.claim("code", "a-code", until=time.time() + 9),
        lambda: once.is_claimed("code", "a-code"),
    ]
    for use in uses:
        with noting_outages() as outage, pytest.raises(LoginUnavailable):
            await use()
        assert outage.noted
    redis_server.start()
    with noting_outages() as outage:
        assert await storage.get("key") is None
    assert not outage.noted
    texts = [record.message for record in caplog.records if record.name == "anyreplica.features.login.shared"]
    assert len(texts) == 2
    assert texts[0].startswith("Redis can't be reached: logins are refused")
    assert texts[1].startswith("Redis can be reached again")
