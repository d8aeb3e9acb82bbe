"""Tests of scripts in Redis."""

import pytest
from redis.asyncio import Redis

from anyreplica.shared.script import RedisKey, RedisKeys, Script
from tests.replicas import RedisServer


class Described(Script[list[bytes]]):
    """Returns what the script gets, in a fixed order."""

    one: RedisKey
    text: str
    number: int
    share: float
    flag: bool
    data: bytes

    lua = """
local function described(value) return type(value) .. ' ' .. tostring(value) end
local found = {described(one), described(text), described(number), described(share), described(flag), described(data)}
"""


class WithLists(Described):
    """The same with lists. Its text follows that of its base."""

    others: RedisKeys
    rest: list[float]

    lua = """
for index = others_start, #KEYS do table.insert(found, KEYS[index]) end
for index = rest_start, #ARGV do table.insert(found, ARGV[index]) end
return found
"""


class Failing(Script[None]):
    """A script with a fault."""

    lua = "return redis.call('NO-SUCH-COMMAND')"


class Counting(Script[int]):
    """Adds to a number."""

    counter: RedisKey
    amount: int

    lua = "return redis.call('INCRBY', counter, amount)"


@pytest.mark.anyio
@pytest.mark.servers
@pytest.mark.needs("redis")
async def test_a_script_gets_its_fields_by_their_names(redis_server: RedisServer) -> None:
    """Keys and arguments are variables, numbers are numbers, and lists follow at the end."""
    script = WithLists("first", "7", 7, 0.5, True, b"\xff", ["second", "third"], [1, 2.5])
    async with Redis.from_url(redis_server.url) as redis:
        found = await script.run(redis)
    words = [b"string first", b"string 7", b"number 7", b"number 0.5", b"number 1", b"string \xff"]
    assert found == [*words, b"second", b"third", b"1", b"2.5"]


@pytest.mark.anyio
@pytest.mark.servers
@pytest.mark.needs("redis")
async def test_a_script_runs_when_redis_has_lost_its_text(redis_server: RedisServer) -> None:
    """After a restart or `SCRIPT FLUSH`, the script still runs, and only once."""
    async with Redis.from_url(redis_server.url) as redis:
        assert await Counting("counter", 2).run(redis) == 2
        await redis.script_flush()
        assert await Counting("counter", 3).run(redis) == 5
        assert await Counting("counter", 4).run(redis) == 9
        calls = await redis.info("commandstats")
    assert calls["cmdstat_evalsha"]["calls"] + calls["cmdstat_eval"]["calls"] == 5
    assert calls["cmdstat_eval"]["calls"] == 2, "the text is sent only if Redis does not have it"


@pytest.mark.anyio
@pytest.mark.servers
@pytest.mark.needs("redis")
async def test_the_error_of_a_script_is_an_os_error(redis_server: RedisServer) -> None:
    """A script that fails raises OSError, as a Redis that cannot be reached does."""
    async with Redis.from_url(redis_server.url) as redis:
        with pytest.raises(OSError, match="Unknown Redis command"):
            await Failing().run(redis)
    async with Redis.from_url("redis://127.0.0.1:9") as nobody:
        with pytest.raises(OSError, match=r"127\.0\.0\.1:9"):
            await Counting("counter", 1).run(nobody)


def test_a_field_that_a_script_cannot_have_is_refused() -> None:
    """A wrong type and a value behind a list are errors when the class is made, not when the script runs."""
    with pytest.raises(TypeError, match=r"Wrong\.number: the type int \| None is not supported"):

        class Wrong(Script[None]):
            number: int | None

    with pytest.raises(TypeError, match=r"Behind\.word: a list must be the last field of ARGV"):

        class Behind(Script[None]):
            words: list[str]
            key: RedisKey
            word: str
