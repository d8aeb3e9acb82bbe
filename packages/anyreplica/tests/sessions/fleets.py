"""Replicas of a single test, which the test may stop."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.replicas import Fleet, RedisServer, running


@contextlib.contextmanager
def own_fleet(folder: Path, pack: str, count: int = 2, **settings: str) -> Iterator[tuple[Fleet, RedisServer]]:
    """Run replicas that serve `tests.packs.<pack>` with HANDSHAKE_SESSIONS=full, and the Redis that they share."""
    settings = {"HANDSHAKE_SESSIONS": "full", "MCP_COMPONENTS": f"tests.packs.{pack}", **settings}
    with RedisServer(folder / "redis.log") as redis, running(folder, count, REDIS_URL=redis.url, **settings) as fleet:
        yield fleet, redis
