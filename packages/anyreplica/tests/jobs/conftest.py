"""Fixtures with queues, replicas and workers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.queue import Jobs, Queue, queue
from tests.replicas import RedisServer


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    """A Redis and two workers, for tests that do not stop processes."""
    folder = tmp_path_factory.mktemp("jobs")
    with (
        RedisServer(folder / "redis.log") as redis,
        queue(folder, redis, JOBS_WAIT_SECONDS="1", JOBS_MAX_RESULT_BYTES="1000") as made,
    ):
        made.start([("worker",)] * 2)
        yield made


@pytest.fixture(scope="session")
def replicas(shared: Queue) -> tuple[Jobs, Jobs]:
    """Two replicas that share the queue."""
    one, other = shared.replicas(2)
    return one, other


@pytest.fixture
def jobs(replicas: tuple[Jobs, Jobs]) -> Jobs:
    """One of two replicas that share the queue."""
    return replicas[0]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file in which a job notes what it does."""
    return tmp_path / "mark"


@pytest.fixture
def jobs_queue(tmp_path: Path, redis_server: RedisServer) -> Iterator[Queue]:
    """A queue for one test. It notices lost workers after 2 seconds."""
    with queue(tmp_path, redis_server, JOBS_REDELIVERY_SECONDS="2", SHUTDOWN_GRACE_SECONDS="1") as made:
        yield made
