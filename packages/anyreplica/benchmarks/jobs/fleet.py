"""Replicas that accept jobs and workers that run them."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs.redis_server import RedisServer
from benchmarks.packs.jobs.count import URL
from benchmarks.process import Process, replica


@dataclass(frozen=True)
class Fleet:
    """Replicas and workers that are ready, and their Redis."""

    redis: RedisServer
    replicas: list[Process]
    workers: list[Process]

    @property
    def ports(self) -> list[int]:
        """Ports of the replicas."""
        return [each.port for each in self.replicas]

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the user and system time of all workers and of all replicas."""
        return sum(each.cpu_seconds() for each in self.workers), sum(each.cpu_seconds() for each in self.replicas)


@contextmanager
def serving(folder: Path, replicas: int, workers: int) -> Iterator[Fleet]:
    """Start a Redis, replicas and workers; they end with the block.

    Raises:
        ProcessError: A process does not start.
    """
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(folder))
        redis.wait_ready()
        settings = {
            "JOBS_URL": redis.url(0),
            URL: redis.url(1),
            "MCP_REPLICAS": str(replicas),
            "REQUEST_STATE_KEYS": secrets.token_hex(32),
        }

        def start(name: str, *module: str) -> Process:
            process = replica("jobs", None, folder, *module, **settings, REPLICA_NAME=name)
            return stack.enter_context(process)

        fleet = Fleet(
            redis,
            [start(f"replica-{number}", "server") for number in range(replicas)],
            [start(f"worker-{number}", "server", "worker") for number in range(workers)],
        )
        for process in (*fleet.replicas, *fleet.workers):
            process.wait_ready()
        yield fleet
