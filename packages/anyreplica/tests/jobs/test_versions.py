"""Tests of jobs during an update, and of queue messages that cannot be read."""

import pytest
from redis import Redis

from conftest import until
from tests.jobs.queue import Queue

pytestmark = pytest.mark.needs("redis")

NEXT = "tests.packs.working_next"
STREAM = "template-mcp:jobs:stream"


def test_a_new_versions_job_waits_for_a_new_worker(jobs_queue: Queue) -> None:
    """An old worker returns a new version's job to the queue. This does not count as an attempt."""
    jobs, old = jobs_queue.replica(MCP_COMPONENTS=NEXT), jobs_queue.worker()
    identity = jobs.submit("brand_new")
    until(lambda: not is_queued(jobs_queue, identity), "the old worker has taken the job from the queue")
    jobs_queue.worker(MCP_COMPONENTS=NEXT)
    status = jobs.wait(identity)
    assert (status["status"], status["attempts"]) == ("completed", 1)
    assert old.process.poll() is None


def test_an_old_versions_job_is_run_by_an_old_worker(jobs_queue: Queue) -> None:
    """An old worker runs an old version's job, and a replica of the new version shows the result."""
    old, new = jobs_queue.replica(), jobs_queue.replica(MCP_COMPONENTS=NEXT)
    jobs_queue.worker(MCP_COMPONENTS=NEXT)
    identity = old.submit("text_of", length=2)
    until(lambda: not is_queued(jobs_queue, identity), "the new worker has taken the job from the queue")
    jobs_queue.worker()
    assert new.wait(identity)["status"] == "completed"
    assert new.result(identity) == "xx"


def test_a_job_that_no_worker_knows_fails(jobs_queue: Queue) -> None:
    """A job that no worker knows fails after JOBS_UNKNOWN_SECONDS with an error that says so."""
    jobs = jobs_queue.replica()
    jobs_queue.worker(MCP_COMPONENTS=NEXT, JOBS_UNKNOWN_SECONDS="1")
    status = jobs.wait(jobs.submit("text_of", length=1))
    assert (status["status"], status["error"]) == ("failed", "No worker has a job named 'text_of'.")


def is_queued(jobs_queue: Queue, identity: str) -> bool:
    """Return whether a job's message is in the stream, not postponed."""
    with Redis(port=jobs_queue.redis.port) as redis:
        return any(message[b"key"].decode() == identity for _, message in redis.xrange(STREAM))


POISON = [
    {"args": b"\x80\x05garbage"},
    {"kwargs": b""},
    {"attempt": b"x"},
    {"when": b"yesterday"},
    {"function": b"\xff"},
    {"key": b"\xff"},
]


def test_what_cannot_be_read_is_dropped(jobs_queue: Queue) -> None:
    """A worker drops messages that it cannot read, fails their jobs and those with wrong arguments, and runs others.

    Arguments do not fit, for example, after an update that has changed the job's parameters.
    """
    jobs = jobs_queue.replica()
    spoilt = [jobs.submit("text_of", length=1) for _ in POISON]
    other, broken, misfit = (jobs.submit("text_of", length=2) for _ in range(3))
    with Redis(port=jobs_queue.redis.port) as redis:
        for poison, (number, message) in zip(POISON, redis.xrange(STREAM), strict=False):
            redis.xdel(STREAM, number)
            redis.xadd(STREAM, {**message, **{name.encode(): value for name, value in poison.items()}})
        redis.set(f"template-mcp:jobs:arguments:{broken}", "{", keepttl=True)
        redis.set(f"template-mcp:jobs:arguments:{misfit}", '{"width": 1}', keepttl=True)
    worker = jobs_queue.worker()
    assert jobs.wait(other)["status"] == "completed"
    for identity, poison in zip(spoilt, POISON, strict=True):
        if "key" not in poison:
            status = jobs.wait(identity)
            text = "No worker can read the job's message in the queue; submit the job again."
            assert (status["status"], status["error"]) == ("failed", text), poison
    for identity in (broken, misfit):
        status = jobs.wait(identity)
        assert status["status"] == "failed"
        assert status["error"].startswith("The worker cannot read the job's arguments: ")
    with Redis(port=jobs_queue.redis.port) as redis:
        until(lambda: redis.xlen(STREAM) == 0, "the queue is empty")
    assert worker.output.count("its message in the queue cannot be read and was dropped") == len(POISON)
    assert jobs.wait(jobs.submit("text_of", length=3))["status"] == "completed"
