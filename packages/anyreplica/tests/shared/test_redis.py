"""Tests of the client of the Redis that replicas share."""

import asyncio
import contextlib
from typing import Any

import pytest
from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004

from anyreplica.settings import Settings
from anyreplica.shared.lost_redis import patiently, persistently, raising_os_errors
from anyreplica.shared.redis import connect
from tests.replicas import RedisServer


@pytest.mark.needs("redis")
def test_a_burst_uses_few_connections(redis_server: RedisServer) -> None:
    """A thousand commands at the same moment all succeed. They wait for the few connections of the replica."""

    async def run() -> None:
        client = connect(Settings(redis_url=redis_server.url))
        assert client is not None
        async with client:
            answers = await asyncio.gather(*(client.incr("count") for _ in range(1000)))
            assert sorted(answers) == list(range(1, 1001))
            assert (await client.info("clients"))["connected_clients"] <= 24

    asyncio.run(run())


@pytest.mark.needs("redis")
def test_cancelled_commands_give_their_connections_back(redis_server: RedisServer) -> None:
    """Tasks that are cancelled at any moment, with or without a connection, leave no connection in use."""

    async def run() -> None:
        client = connect(Settings(redis_url=redis_server.url))
        assert client is not None
        async with client:
            for pause in range(20):
                commands = [asyncio.ensure_future(client.incr("count")) for _ in range(100)]
                await asyncio.sleep(pause / 2000)
                for number, command in enumerate(commands):
                    if number % 3:
                        command.cancel()
                await asyncio.gather(*commands, return_exceptions=True)
            # On a busy machine an answer may come late. A lost connection would stay lost.
            async with asyncio.timeout(60):
                while not await all_answer(client):
                    pass

    asyncio.run(run())


async def all_answer(client: Any) -> bool:
    """Return whether 1,000 commands at the same moment all get their answers in time."""
    commands = (client.incr("count") for _ in range(1000))
    results = await asyncio.gather(*commands, return_exceptions=True)
    return all(isinstance(result, int) for result in results)


async def answers_again(client: Any) -> None:
    """Wait until quick commands work again."""
    while True:
        with contextlib.suppress(ConnectionError):
            await client.ping()
            return
        await asyncio.sleep(0.05)


@pytest.mark.needs("redis")
def test_one_command_waits_for_a_stopped_redis_and_the_others_fail_at_once(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """While Redis is stopped, the first commands fail after their time limit, with all that wait for a connection.

    Later ones fail at once. When Redis goes on, commands work again without a new client, and the log has two lines.
    """

    async def run() -> None:
        client = connect(Settings(redis_url=redis_server.url))
        assert client is not None
        loop = asyncio.get_running_loop()
        async with client, asyncio.timeout(60):
            await asyncio.gather(*(client.incr("count") for _ in range(30)))
            redis_server.hang()
            try:
                began = loop.time()
                ended = await asyncio.gather(*(client.incr("count") for _ in range(200)), return_exceptions=True)
                # One time limit of 1 s. Before the breaker, the queue took a second one and failed after 2 s.
                assert loop.time() - began < 1.8
                assert {type(each) for each in ended} <= {ConnectionError, TimeoutError}
                began = loop.time()
                for _ in range(200):
                    with pytest.raises(ConnectionError, match="no answer"):
                        await client.incr("count")
                assert loop.time() - began < 0.8  # without the breaker 200 s
            finally:
                redis_server.go_on()
            await answers_again(client)
            assert len(await asyncio.gather(*(client.incr("count") for _ in range(200)))) == 200

    asyncio.run(run())
    lines = [record.message for record in caplog.records if record.name == "anyreplica.shared.redis_breaker"]
    assert [line.partition(":")[0] for line in lines] == [
        "Redis (REDIS_URL) does not answer",
        "Redis (REDIS_URL) answers again",
    ]


@pytest.mark.needs("redis")
def test_patient_commands_outlast_a_stop(redis_server: RedisServer) -> None:
    """A patient command waits for a Redis that is stopped for 2 s, while quick commands fail at once."""

    async def run() -> None:
        client = connect(Settings(redis_url=redis_server.url))
        assert client is not None
        async with client, asyncio.timeout(60):
            await client.ping()
            redis_server.hang()
            try:
                # More than there are connections, and more than quick commands may use.
                patient = [asyncio.ensure_future(persistently(lambda: add(client))) for _ in range(100)]
                with pytest.raises(TimeoutError):
                    await client.ping()
                with pytest.raises(ConnectionError, match="no answer"):
                    await client.ping()
                await asyncio.sleep(1)  # the time of the stop: longer than the time limit of a quick command
                assert not any(each.done() for each in patient)
            finally:
                redis_server.go_on()
            assert sorted(await asyncio.gather(*patient)) == list(range(1, 101))

    async def add(client: Any) -> int:
        with raising_os_errors():
            return int(await client.incr("count"))

    asyncio.run(run())


@pytest.mark.needs("redis")
def test_patience_ends(redis_server: RedisServer) -> None:
    """An attempt that gets no answer ends with a plain OSError after its time, and gives its connections back."""

    async def run() -> None:
        client = connect(Settings(redis_url=redis_server.url))
        assert client is not None
        async with client, asyncio.timeout(60):
            await client.ping()
            redis_server.hang()
            try:
                tries = (persistently(client.ping, 0.5) for _ in range(200))
                ended = await asyncio.gather(*tries, return_exceptions=True)
            finally:
                redis_server.go_on()
            assert {type(each) for each in ended} == {OSError}
            assert "no answer within 0.5 s" in str(ended[0])
            assert len(await asyncio.gather(*(patiently(client.ping()) for _ in range(200)))) == 200

    asyncio.run(run())
