"""Tests of the job queue's metrics."""

import pytest

from conftest import StartServer, until
from tests.calls import get
from tests.jobs.queue import Queue
from tests.metrics.page import Scrape

pytestmark = pytest.mark.needs("redis")

DEPTH, AGE, RUNNING = "mcp_job_queue_depth", "mcp_job_queue_age_seconds", "mcp_jobs_running"


def test_a_queue_that_all_replicas_see(jobs_queue: Queue) -> None:
    """Every replica's metrics show the jobs of the shared queue. Without Redis, all other metrics remain."""
    one, other = jobs_queue.replicas(2)
    assert Scrape(one.url).series(DEPTH) == [0]
    done, failing = one.submit("text_of", length=3), other.submit("tells", why="no")
    until(lambda: Scrape(other.url).value(DEPTH) == 2, "two jobs wait in the queue")
    until(lambda: Scrape(one.url).value(AGE) > 0, "the age of the oldest waiting job is more than 0 s")
    jobs_queue.start([("worker",)])
    one.wait(done)
    one.wait(failing)
    until(lambda: Scrape(one.url).series(DEPTH) == [0], "no job waits in the queue")

    def ended(job: str, state: str) -> list[float]:
        return [Scrape(jobs.url).value("mcp_jobs_total", job=job, state=state) for jobs in (one, other)]

    until(lambda: ended("text_of", "completed") == [1, 1], "the metrics count the finished jobs")
    assert ended("tells", "failed") == [1, 1]
    assert [Scrape(jobs.url).value(RUNNING) for jobs in (one, other)] == [0, 0]
    jobs_queue.redis.kill()
    until(lambda: not Scrape(one.url).series(DEPTH), "the metrics no longer contain the length of the queue")
    assert Scrape(one.url).series("mcp_requests_in_flight")


def test_a_scrape_does_not_start_the_queue(start_server: StartServer) -> None:
    """A scrape of the metrics does not start the queue in the replica. The first request to `/jobs` starts it."""
    server = start_server()
    assert not Scrape(server.url).series(DEPTH)
    reply = get(f"{server.url}/jobs")
    assert reply.status_code == 200
    until(lambda: Scrape(server.url).series(DEPTH) == [0], "the metrics contain the length of the queue")
