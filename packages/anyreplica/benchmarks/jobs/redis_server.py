"""A Redis for a study."""

from pathlib import Path
from typing import Any

import redis

from benchmarks.command import need
from benchmarks.process import Program, free_port

_PAGE = 1000
"""Number of keys that one request reads."""


class RedisServer(Program):
    """A `redis-server` that writes nothing to disk. Database 0: jobs; database 1: counters of the job `mark`."""

    def __init__(self, folder: Path) -> None:
        need("redis-server", "redis-server")
        port = free_port()
        command = ("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        super().__init__(*command, "--dir", str(folder), port=port, core=None, folder=folder)

    def is_ready(self) -> bool:
        """Return True if Redis answers."""
        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def url(self, database: int) -> str:
        """Return the URL of a database."""
        return f"redis://127.0.0.1:{self.port}/{database}"

    def used_memory(self) -> int:
        """Return the allocated memory in bytes."""
        with redis.Redis(port=self.port) as client:
            info: dict[str, Any] = client.info("memory")
        return int(info["used_memory"])

    def counters(self) -> list[int]:
        """Return the values of all counters."""
        with redis.Redis(port=self.port, db=1) as client:
            keys = list(client.scan_iter(count=_PAGE))
            return [int(value) for value in client.mget(keys)] if keys else []
