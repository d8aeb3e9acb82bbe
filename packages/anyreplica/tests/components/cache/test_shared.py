"""Tests of cached results that several replicas share."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from redis import Redis

from conftest import Server, StartServer, until
from tests.components.cache.test_cache import PACK, given, ran
from tests.metrics.page import Scrape
from tests.replicas import KEYS, RedisServer

pytestmark = pytest.mark.needs("redis")


@pytest.fixture
def replicas(start_server: StartServer, redis_server: RedisServer, tmp_path: Path) -> list[Server]:
    """Three replicas that share a Redis."""
    (tmp_path / "runs").touch()
    settings = {"MCP_COMPONENTS": PACK, "RUNS": str(tmp_path / "runs"), "REDIS_URL": redis_server.url}
    settings |= {"MCP_REPLICAS": "3", "REQUEST_STATE_KEYS": KEYS}
    return [start_server(**settings) for _ in range(3)]


def test_replicas_share_results(replicas: list[Server], redis_server: RedisServer) -> None:
    """One replica runs the tool, and all use its result, also at the same time. Each key in Redis expires."""
    assert [given(each, "public", "a") for each in replicas] == [1, 1, 1]
    assert ran(replicas[0], "a") == 1
    with ThreadPoolExecutor(30) as threads:
        found = list(threads.map(lambda n: given(replicas[n % 3], "public", "herd", seconds=0.5), range(30)))
    assert set(found) == {1}
    assert ran(replicas[0], "herd") == 1
    with Redis.from_url(redis_server.url) as redis:
        keys = redis.keys("*:cache:*")
        assert keys
        assert all(redis.pttl(key) > 0 for key in keys)


def test_without_redis_tools_run(replicas: list[Server], redis_server: RedisServer) -> None:
    """Without Redis each replica runs the tool itself until Redis is back."""
    redis_server.kill()
    assert [given(each, "public", "c") for each in replicas] == [1, 2, 3]
    assert [given(each, "public", "c") for each in replicas] == [1, 2, 3]
    found = Scrape(replicas[0].url)
    assert found.value("mcp_cache_requests_total", tool="public", result="bypassed") == 1
    assert found.value("mcp_cache_requests_total", tool="public", result="hit") == 1
    assert all("never awaited" not in each.output for each in replicas)
    redis_server.start()

    def shared() -> bool:
        run = ran(replicas[0], "c")
        return bool(given(replicas[0], "public", "c", number=run) == given(replicas[1], "public", "c", number=run))

    until(shared, "the replicas share a result again")


def test_an_unreadable_entry_is_ignored(replicas: list[Server], redis_server: RedisServer) -> None:
    """A cache entry of another type or format, for example from another version, is ignored and the tool runs."""
    assert given(replicas[0], "public", "d") == 1
    with Redis.from_url(redis_server.url) as redis:
        (key,) = redis.keys("*:cache:*")
        for replica, odd in zip(replicas[1:], [b'[99999999999, 99999999999, "text"]', b"nonsense"], strict=True):
            redis.set(key, odd, px=60_000)
            run = given(replica, "public", "d")
            assert run > 1
            assert json.loads(redis.get(key) or b"")[2] == run
