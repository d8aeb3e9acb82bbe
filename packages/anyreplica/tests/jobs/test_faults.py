"""Tests of jobs when workers or Redis fail."""

import asyncio
import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import until
from tests.calls import call, text
from tests.jobs.queue import PACK, Queue, lines, wait_for_begin
from tests.mixed_load import MixedLoad

pytestmark = pytest.mark.needs("redis")


def test_another_worker_takes_over_from_a_killed_worker(jobs_queue: Queue, mark: Path) -> None:
    """After a worker is killed, another worker runs its job. The attempts are counted and there is one result."""
    jobs, first = jobs_queue.replica(), jobs_queue.worker()
    identity = jobs.submit("nap", seconds=3, mark=str(mark))
    wait_for_begin(mark)
    os.killpg(first.process.pid, signal.SIGKILL)
    jobs_queue.worker()
    status = jobs.wait(identity)
    assert (status["status"], status["attempts"]) == ("completed", 2)
    assert jobs.result(identity) == "slept"
    assert lines(mark) == ["begun", "begun", "ended"]


def test_a_worker_that_resumes_after_redelivery_reports_nothing(jobs_queue: Queue, mark: Path) -> None:
    """A suspended worker changes nothing when it resumes after another worker has run the job."""
    jobs, first = jobs_queue.replica(), jobs_queue.worker()
    identity = jobs.submit("nap", seconds=4, mark=str(mark))
    wait_for_begin(mark)
    first.process.send_signal(signal.SIGSTOP)
    jobs_queue.worker()
    done = jobs.wait(identity)
    first.process.send_signal(signal.SIGCONT)
    until(lambda: lines(mark) == ["begun", "begun", "ended", "cancelled"], "the first worker has cancelled its run")
    assert jobs.status(identity) == done
    assert (done["status"], done["attempts"]) == ("completed", 2)


def test_a_worker_runs_as_many_jobs_as_its_limit(jobs_queue: Queue, mark: Path) -> None:
    """A worker runs up to JOBS_CONCURRENCY jobs at once. A job that is cancelled while it waits never runs."""
    jobs = jobs_queue.replica()
    jobs_queue.worker(JOBS_CONCURRENCY="2")
    marks = [mark, mark, mark.with_name("cancelled"), mark]
    *running, cancelled, last = [jobs.submit("nap", seconds=2, mark=str(each)) for each in marks]
    assert jobs.client.delete(f"/jobs/{cancelled}").json()["status"] == "cancelled"
    for identity in running:
        jobs.wait(identity, "running")
    assert jobs.status(last)["status"] == "pending"
    assert jobs.wait(last)["status"] == "completed"
    assert lines(mark.with_name("cancelled")) == []


def test_a_job_that_kills_each_of_its_workers_fails(jobs_queue: Queue, mark: Path) -> None:
    """A job that kills each of its workers fails after JOBS_MAX_ATTEMPTS with an error that says so."""
    jobs = jobs_queue.replica()
    identity = jobs.submit("kills_its_worker", times=9, mark=str(mark))
    for _ in range(3):
        (worker,) = jobs_queue.start([("worker",)], False)
        worker.process.wait(60)
    jobs_queue.worker()
    status = jobs.wait(identity)
    assert (status["status"], status["attempts"]) == ("failed", 3)
    assert status["error"] == "Given up after 3 attempts: the worker was lost too often (JOBS_MAX_ATTEMPTS)."
    assert lines(mark) == ["begun"] * 3


def test_a_stopping_worker_finishes_its_running_jobs(jobs_queue: Queue, mark: Path) -> None:
    """A stopping worker finishes its running jobs, starts no new job and exits with 0.

    A command that is on its way to Redis can still take one job, because one of the two places is free.
    """
    settings = {"SHUTDOWN_GRACE_SECONDS": "20", "DRAIN_SECONDS": "0.1", "JOBS_CONCURRENCY": "2"}
    jobs, worker = jobs_queue.replica(), jobs_queue.worker(**settings)
    running = jobs.submit("nap", seconds=3, mark=str(mark))
    jobs.wait(running, "running")
    worker.process.send_signal(signal.SIGTERM)
    until(lambda: "SIGTERM" in worker.output, "the worker logs SIGTERM")
    jobs.submit("text_of", length=3)
    waiting = jobs.submit("text_of", length=4)
    assert worker.process.wait(60) == 0, worker.output
    assert jobs.status(running)["status"] == "completed"
    assert jobs.status(waiting)["status"] == "pending"
    jobs_queue.worker()
    assert jobs.wait(waiting)["status"] == "completed"


def test_a_job_beyond_the_grace_period_moves_to_another_worker(jobs_queue: Queue, mark: Path) -> None:
    """A job beyond its worker's grace period moves to another worker at once. This is no further attempt."""
    jobs, worker = jobs_queue.replica(), jobs_queue.worker(JOBS_REDELIVERY_SECONDS="60")
    identity = jobs.submit("nap", seconds=4, mark=str(mark))
    wait_for_begin(mark)
    assert worker.stop() == 0, worker.output
    assert jobs.status(identity)["status"] == "pending"
    jobs_queue.worker(JOBS_REDELIVERY_SECONDS="60")
    status = jobs.wait(identity)
    assert (status["status"], status["attempts"]) == ("completed", 1)
    assert lines(mark) == ["begun", "cancelled", "begun", "ended"]


def test_an_outage_of_redis(jobs_queue: Queue, mark: Path) -> None:
    """Without Redis, submissions get 503, running jobs finish, and tools answer as usual.

    When Redis is back, the results of the finished jobs are available. A worker stops in time also without Redis.
    """
    jobs_queue.redis.keep()
    jobs = jobs_queue.replica(MCP_COMPONENTS="server,tests.packs.working")
    worker = jobs_queue.worker(JOBS_REDELIVERY_SECONDS="60")  # A redelivery would take longer than the test.
    running = jobs.submit("nap", seconds=2, mark=str(mark))
    until(lambda: "begun" in lines(mark), "the job has begun")  # its status says so a moment before
    jobs_queue.redis.kill()
    for _ in range(20):
        assert text(call(jobs.url, "echo", {"message": "hi"})) == "hi"
    refused = jobs.post("text_of", {"length": 1})
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
    assert refused.json()["error"] == "unavailable"
    assert jobs.client.get(f"/jobs/{running}/status").status_code == 503
    until(lambda: "ended" in lines(mark), "the running job ends without Redis")
    jobs_queue.redis.start()
    assert jobs.wait(running)["status"] == "completed"
    assert jobs.result(running) == "slept"
    assert lines(mark) == ["begun", "ended"]
    assert jobs.wait(jobs.submit("text_of", length=1))["status"] == "completed"
    jobs_queue.redis.kill()
    assert worker.stop() == 0, worker.output


def test_a_short_outage_does_not_disturb_a_running_job(jobs_queue: Queue, mark: Path) -> None:
    """After a short outage of Redis, workers start other jobs, but no running job a second time."""
    jobs_queue.redis.keep()
    jobs = jobs_queue.replica()
    jobs_queue.start([("worker",)] * 2, JOBS_REDELIVERY_SECONDS="4")
    running = jobs.submit("nap", seconds=10, mark=str(mark))
    until(lambda: "begun" in lines(mark), "the job has begun")  # its status says so a moment before
    jobs_queue.redis.kill()
    assert jobs.post("text_of", {"length": 1}).status_code == 503
    jobs_queue.redis.start()
    for _ in range(10):
        assert jobs.wait(jobs.submit("text_of", length=1))["status"] == "completed"
    assert jobs.status(running)["status"] == "running", "the first job must still run, so that the test means something"
    status = jobs.wait(running)
    assert (status["status"], status["attempts"]) == ("completed", 1)
    assert lines(mark) == ["begun", "ended"]


def test_a_worker_notices_a_cancellation_without_a_message(jobs_queue: Queue, mark: Path) -> None:
    """A worker that has missed the message of a cancellation reads it in the job's record, and stops the job."""
    jobs = jobs_queue.replica()
    jobs_queue.worker()
    identity = jobs.submit("silent_nap", mark=str(mark))
    wait_for_begin(mark)
    jobs_queue.redis.ask("hset", f"template-mcp:jobs:job:{identity}", "state", "cancelled")
    until(lambda: lines(mark) == ["begun", "cancelled"], "the job's code has been cancelled")


def test_a_hanging_redis_of_jobs_takes_no_places_of_other_calls(jobs_queue: Queue) -> None:
    """While the Redis of jobs hangs, 120 clients ask for a job, and all other calls are answered."""
    jobs = jobs_queue.replica(MCP_COMPONENTS=f"{PACK},server")
    identity = jobs.submit("text_of", length=1)
    load = MixedLoad(jobs.url, "job", "GET", f"/jobs/{identity}/status", {})
    jobs_queue.redis.hang()
    try:
        asyncio.run(load.run(6))
        assert jobs.post("text_of", {"length": 1}).status_code == 503
    finally:
        jobs_queue.redis.go_on()
    print(f"The Redis of jobs is stopped: {dict(load.statuses)}")
    assert load.statuses["plain 200"] >= 10
    assert set(load.statuses) == {"job 503", "plain 200"}, load.statuses
    until(lambda: jobs.post("text_of", {"length": 1}).status_code == 202, "the replica accepts jobs again")


def test_accepted_jobs_outlive_a_restart_of_redis(jobs_queue: Queue) -> None:
    """Accepted jobs run after a restart of a Redis that stores its data on disk."""
    jobs_queue.redis.keep()
    jobs = jobs_queue.replica()
    identities = [jobs.submit("text_of", length=number) for number in range(20)]
    jobs_queue.redis.kill()
    jobs_queue.redis.start()
    jobs_queue.worker()
    assert [len(jobs.result(each)) for each in identities if jobs.wait(each)] == list(range(20))


def test_nothing_piles_up_in_redis(jobs_queue: Queue) -> None:
    """Redis keeps nothing of expired jobs and their idempotency keys, even if nobody reads them."""
    jobs = jobs_queue.replica()
    jobs_queue.worker()
    for number in range(30):
        jobs.post("briefly_kept", key=f"key-{number}")
    until(lambda: jobs_queue.redis.ask("zcard", "template-mcp:jobs:unfinished") == "0", "all jobs have finished")
    ask = jobs_queue.redis.ask
    until(lambda: ask("--scan", "--pattern", "template-mcp:jobs:job:*") == "", "Redis has no key of a job")
    assert ask("--scan", "--pattern", "template-mcp:jobs:idempotency:*") == ""
    before = int(ask("zcard", "template-mcp:jobs:jobs-of:anybody"))
    for _ in range(4):
        jobs.submit("briefly_kept")
    assert int(ask("zcard", "template-mcp:jobs:jobs-of:anybody")) <= max(4, before - 30)
    assert jobs.post("briefly_kept", key="key-0").status_code == 202, "the idempotency key can be used again"


def test_a_full_queue_refuses_jobs(jobs_queue: Queue) -> None:
    """A full queue refuses a job with 429 and Retry-After, but still answers a repeat of an accepted submission.

    The queue accepts no more than JOBS_MAX_PENDING jobs, even from many submissions at the same time.
    """
    jobs = jobs_queue.replica(JOBS_MAX_PENDING="3")
    with ThreadPoolExecutor(20) as callers:
        replies = list(callers.map(lambda n: jobs.post("text_of", {"length": 1}, key=f"key-{n}"), range(60)))
    assert Counter(reply.status_code for reply in replies) == {202: 3, 429: 57}
    assert {reply.headers.get("Retry-After") for reply in replies if reply.status_code == 429} == {"5"}
    accepted = next(n for n, reply in enumerate(replies) if reply.status_code == 202)
    assert jobs.post("text_of", {"length": 1}, key=f"key-{accepted}").json() == replies[accepted].json()
    jobs_queue.worker()
    until(lambda: jobs.post("text_of", {"length": 1}).status_code == 202, "the replica accepts jobs again")


QUEUE_KEYS = ("stream", "queue", "workers", "task-workers:", "strikes")
"""Prefixes of the keys that Docket (the queue library) has once per queue, for any number of jobs."""


def test_each_key_of_a_job_expires(jobs_queue: Queue, tmp_path: Path) -> None:
    """Each Redis key of a job has an expiry time, while the job waits or runs, has failed or is cancelled."""
    jobs = jobs_queue.replica()
    prefix = "template-mcp:jobs:"

    def eternal() -> list[str]:
        keys = jobs_queue.redis.ask("--scan").splitlines()
        assert all(key.startswith(prefix) for key in keys), keys
        own = [key for key in keys if not key.removeprefix(prefix).startswith(QUEUE_KEYS)]
        assert len(own) > 3
        return [key for key in own if jobs_queue.redis.ask("ttl", key) == "-1"]

    for number in range(3):
        jobs.post("text_of", {"length": 1}, key=f"key-{number}")
    cancelled = jobs.submit("text_of", length=1)
    jobs.client.delete(f"/jobs/{cancelled}")
    failing = jobs.submit("fails_at_first", times=9, mark=str(tmp_path / "one"))
    running = jobs.submit("nap", seconds=20, mark=str(tmp_path / "two"))
    assert eternal() == []
    jobs_queue.worker()
    jobs.wait(running, "running")
    assert eternal() == []
    jobs.wait(failing)
    assert eternal() == []
