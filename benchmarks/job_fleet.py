"""What jobs need: a Redis, replicas that take jobs and workers that do them, each on a private port of 127.0.0.1."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from benchmarks.packs.jobs.count import URL
from benchmarks.process import Process, Program, free_port

_SOME = 1000
"""Keys that are asked for at once."""


class RedisServer(Program):
    """A `redis-server` that writes nothing to disk; jobs are in its database 0, the counters of a job in 1."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        command = ("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        super().__init__(*command, "--dir", str(folder), port=port, core=None, folder=folder)

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def url(self, database: int) -> str:
        """Where one of its databases is."""
        return f"redis://127.0.0.1:{self.port}/{database}"

    def used_memory(self) -> int:
        """All that it has allocated, in bytes."""
        with redis.Redis(port=self.port) as client:
            info: dict[str, Any] = client.info("memory")
        return int(info["used_memory"])

    def memory_of(self, jobs: set[str]) -> int:
        """What the keys take, in bytes, that carry the id of one of these jobs."""
        with redis.Redis(port=self.port) as client:
            own = [key for key in client.scan_iter(count=_SOME) if key.rpartition(b":")[2].decode() in jobs]
            pipeline = client.pipeline(transaction=False)
            for key in own:
                pipeline.memory_usage(key)
            return sum(pipeline.execute())

    def counters(self) -> list[int]:
        """What each counter stands at."""
        with redis.Redis(port=self.port, db=1) as client:
            keys = list(client.scan_iter(count=_SOME))
            return [int(value) for value in client.mget(keys)] if keys else []


@dataclass(frozen=True)
class Fleet:
    """All that take jobs and do them, ready."""

    replicas: list[Process]
    workers: list[Process]

    @property
    def ports(self) -> list[int]:
        """Of the replicas."""
        return [replica.port for replica in self.replicas]

    def cpu_seconds(self) -> tuple[float, float]:
        """User and system time of all workers, and of all replicas, since they were started."""
        workers, replicas = (sum(each.cpu_seconds() for each in kind) for kind in (self.workers, self.replicas))
        return workers, replicas


@contextmanager
def serving(folder: Path, redis_server: RedisServer, replicas: int, workers: int) -> Iterator[Fleet]:
    """So many replicas and workers on one Redis; they end with the `with`, after the jobs that run then.

    Raises:
        ProcessError: one of them does not start.
    """
    settings = {
        "MCP_COMPONENTS": "benchmarks.packs.jobs",
        "JOBS_URL": redis_server.url(0),
        URL: redis_server.url(1),
        "MCP_REPLICAS": str(replicas),
        "REQUEST_STATE_KEYS": secrets.token_hex(32),
        # A connection is kept for as long as its caller wants it.
        "MAX_REQUESTS_PER_CONNECTION": "0",
        "MAX_CONNECTION_AGE_SECONDS": "0",
    }
    with ExitStack() as stack:

        def start(kind: str, number: int, *module: str) -> Process:
            name = f"{kind}-{number}"
            return stack.enter_context(Process(*module, core=None, folder=folder, REPLICA_NAME=name, **settings))

        fleet = Fleet(
            [start("replica", number, "server") for number in range(replicas)],
            [start("worker", number, "server", "worker") for number in range(workers)],
        )
        for process in (*fleet.replicas, *fleet.workers):
            process.wait_ready()
        yield fleet
