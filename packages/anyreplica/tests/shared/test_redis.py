"""Tests of the client of the Redis that replicas share."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004

from anyreplica import Settings
from anyreplica.shared.lost_redis import patiently, retry_for, translate_redis_errors
from anyreplica.shared.redis import connect
from tests.replicas import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]


@pytest.fixture
async def client(redis_server: RedisServer) -> AsyncIterator[Any]:
    """A replica's client of the Redis of a test."""
    found = connect(Settings(redis_url=redis_server.url))
    assert found is not None
    async with found:
        yield found


async def test_a_burst_uses_few_connections(client: Any) -> None:
    """A thousand commands at the same moment all succeed. They wait for the few connections of the replica."""
    await all_answered(client)
    assert (await client.info("clients"))["connected_clients"] <= 24


async def test_cancelled_commands_give_their_connections_back(client: Any) -> None:
    """Tasks that are cancelled at any moment, with or without a connection, leave no connection in use."""
    for pause in range(20):
        commands = [asyncio.ensure_future(client.incr("count")) for _ in range(100)]
        await asyncio.sleep(pause / 2000)
        for number, command in enumerate(commands):
            if number % 3:
                command.cancel()
        await asyncio.gather(*commands, return_exceptions=True)
    await all_answered(client)  # a lost connection would stay lost


async def burst(client: Any, count: int) -> list[object]:
    """Send commands at the same time. Return their results and errors."""
    results: list[object] = await asyncio.gather(*(client.incr("count") for _ in range(count)), return_exceptions=True)
    return results


async def all_answered(client: Any) -> None:
    """Send 1,000 commands at the same moment, again if an answer comes too late, until all get answers."""
    async with asyncio.timeout(60):
        while True:
            results = await burst(client, 1000)
            if all(isinstance(result, int) for result in results):
                assert len(set(results)) == 1000
                return


async def answers_again(client: Any) -> None:
    """Wait until quick commands work again."""
    while True:
        with contextlib.suppress(ConnectionError, TimeoutError):  # on a busy machine, an answer may come too late again
            await client.ping()
            return
        await asyncio.sleep(0.05)


async def test_one_command_waits_for_a_stopped_redis_and_the_others_fail_at_once(
    redis_server: RedisServer, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A stopped Redis costs one time limit: then all fail at once, until it goes on. The log has two lines."""
    async with asyncio.timeout(60):
        while any(isinstance(each, Exception) for each in await burst(client, 30)):
            await answers_again(client)
        redis_server.hang()
        try:
            ended = await burst(client, 200)
            kinds = Counter(map(type, ended))
            # Each connection waits for its answer. What waits for a connection does not start a time limit of its own.
            assert set(kinds) <= {ConnectionError, TimeoutError}
            assert kinds[TimeoutError] <= 24
            for _ in range(200):
                with pytest.raises(ConnectionError, match="no answer"):
                    await client.incr("count")
        finally:
            redis_server.go_on()
        # On a busy machine, a burst of 200 commands can need more than a time limit.
        while not all(isinstance(each, int) for each in await burst(client, 200)):
            await answers_again(client)
    lines = [record.message for record in caplog.records if record.name == "anyreplica.shared.outage"]
    both = ["Redis (REDIS_URL) does not answer", "Redis (REDIS_URL) answers again"]
    assert len(lines) >= 2
    assert [line.partition(":")[0] for line in lines] == both * (len(lines) // 2)


async def test_patient_commands_outlast_a_stop(redis_server: RedisServer, client: Any) -> None:
    """A patient command waits for a Redis that is stopped for 2 s, while quick commands fail at once."""

    async def add(client: Any) -> int:
        with translate_redis_errors():
            return int(await client.incr("count"))

    async with asyncio.timeout(60):
        await client.ping()
        redis_server.hang()
        try:
            # More than there are connections, and more than quick commands may use.
            patient = [asyncio.ensure_future(retry_for(lambda: add(client))) for _ in range(100)]
            with pytest.raises(TimeoutError):
                await client.ping()
            with pytest.raises(ConnectionError, match="no answer"):
                await client.ping()
            await asyncio.sleep(1)  # the time of the stop: longer than the time limit of a quick command
            assert not any(each.done() for each in patient)
        finally:
            redis_server.go_on()
        assert sorted(await asyncio.gather(*patient)) == list(range(1, 101))


async def test_patience_ends(redis_server: RedisServer, client: Any) -> None:
    """An attempt that gets no answer ends with a plain OSError after its time, and gives its connections back."""
    async with asyncio.timeout(60):
        await client.ping()
        redis_server.hang()
        try:
            tries = (retry_for(client.ping, 0.5) for _ in range(200))
            ended = await asyncio.gather(*tries, return_exceptions=True)
        finally:
            redis_server.go_on()
        assert {type(each) for each in ended} == {OSError}
        assert "no answer within 0.5 s" in str(ended[0])
        assert len(await asyncio.gather(*(patiently(client.ping()) for _ in range(200)))) == 200
