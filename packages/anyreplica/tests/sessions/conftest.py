"""Replicas that can ask their clients."""

from collections.abc import Iterator

import pytest

from tests.replicas import COMPONENTS, Fleet, RedisServer, running

FULL_PACKS = f"{COMPONENTS},tests.packs.state,tests.packs.waiting,tests.packs.lists,tests.packs.asking"
PACKS = f"{COMPONENTS},tests.packs.state,tests.packs.asking"


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis for the tests of one file."""
    with RedisServer(tmp_path_factory.mktemp("redis") / "redis.log") as server:
        yield server


@pytest.fixture(scope="package")
def asking_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The Redis of `asking_fleet`."""
    with RedisServer(tmp_path_factory.mktemp("asking") / "redis.log") as redis:
        yield redis


@pytest.fixture(scope="package")
def asking_fleet(asking_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas with HANDSHAKE_SESSIONS=ask and one Redis, for tests that do not change the replicas' state."""
    with running(
        tmp_path_factory.mktemp("asking-fleet"),
        MCP_COMPONENTS=PACKS,
        HANDSHAKE_SESSIONS="ask",
        REDIS_URL=asking_redis.url,
        CLIENT_REQUEST_SECONDS="5",
        MAX_IN_FLIGHT="10",
    ) as found:
        yield found


@pytest.fixture(scope="package")
def full_fleet(asking_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas with HANDSHAKE_SESSIONS=full that share a Redis, for tests that do not change their state."""
    with running(
        tmp_path_factory.mktemp("full-fleet"),
        MCP_NAME="full",
        MCP_COMPONENTS=FULL_PACKS,
        HANDSHAKE_SESSIONS="full",
        REDIS_URL=asking_redis.url,
        MAX_SUBSCRIPTIONS="20",
    ) as found:
        yield found
