"""Tests of the client of the Redis that replicas share."""

import asyncio

import pytest
from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004

from anyreplica.settings import Settings
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
            assert len(await asyncio.gather(*(client.incr("count") for _ in range(1000)))) == 1000

    asyncio.run(run())


@pytest.mark.needs("redis")
def test_a_command_does_not_wait_for_ever(redis_server: RedisServer) -> None:
    """While Redis hangs, commands that wait for a free connection fail within seconds. Then they work again."""

    async def run() -> None:
        client = connect(Settings(redis_url=redis_server.url))
        assert client is not None
        async with client, asyncio.timeout(60):
            await asyncio.gather(*(client.incr("count") for _ in range(30)))
            redis_server.hang()
            ended = await asyncio.gather(*(client.incr("count") for _ in range(200)), return_exceptions=True)
            redis_server.go_on()
            assert {type(each) for each in ended} <= {ConnectionError, TimeoutError}
            assert await client.ping()

    asyncio.run(run())
