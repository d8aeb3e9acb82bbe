"""Tests of changes that a job announces in a worker."""

import pytest

from tests.jobs.queue import Queue
from tests.mcp.any_replica.listeners import listening

pytestmark = pytest.mark.needs("redis")


def test_a_job_reaches_the_listeners_of_a_replica(jobs_queue: Queue) -> None:
    """A job announces the update of a resource in its worker; a listener at a replica gets it."""
    settings = {"REDIS_URL": jobs_queue.redis.url}
    replica = jobs_queue.replica(**settings)
    jobs_queue.worker(**settings)
    with listening(jobs_queue.started[0], {"resourceSubscriptions": ["orders://today"]}) as events:
        replica.submit("announces", uri="orders://today")
        assert next(events)["params"]["uri"] == "orders://today"
