"""Tests of the places in the queue, with a Redis in this process."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from docket import Docket

from anyreplica.auth.caller import ANYBODY
from anyreplica.features.jobs.record import JobError, Record
from anyreplica.features.jobs.store import Store

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _queue(most: int, most_bytes: int = 1000) -> AsyncIterator[tuple[Store, Docket]]:
    """Return the store of an empty queue."""
    async with Docket(name=f"places-{time.monotonic_ns()}", url="memory://") as docket:
        yield Store(docket, most, most_bytes), docket


def _job(number: int, owner: str, submitted: float | None = None) -> Record:
    now = time.time() if submitted is None else submitted
    return Record(id=f"job-{number}", job="text", owner=owner, submitted=now, digest="0", kept=60)


async def _refusal(store: Store, job: Record, arguments: str = "{}") -> str:
    with pytest.raises(JobError) as refused:
        await store.create(job, arguments, None)
    assert (refused.value.status, refused.value.code, refused.value.retry_after) == (429, "queue_full", 5)
    return str(refused.value)


async def test_one_caller_has_at_most_half_of_the_queue() -> None:
    """Another caller still gets a place. A job that ends gives its place back to its owner."""
    async with _queue(4) as (store, _):
        first, second = _job(1, "a"), _job(2, "a")
        for job in (first, second):
            await store.create(job, "{}", None)
        assert await _refusal(store, _job(3, "a")) == (
            "Job queue full: 2 of your jobs wait or run, half of JOBS_MAX_PENDING; retry later."
        )
        await store.create(_job(4, "b"), "{}", None)
        assert await store.finish(first, "cancelled")
        await store.create(_job(5, "a"), "{}", None)
        await store.create(_job(6, "b"), "{}", None)
        assert "4 jobs wait or run (JOBS_MAX_PENDING)" in await _refusal(store, _job(7, "c"))


async def test_without_authentication_all_callers_share_the_queue() -> None:
    """They are one owner, and may have all places."""
    async with _queue(2) as (store, _):
        for number in (1, 2):
            await store.create(_job(number, ANYBODY), "{}", None)
        assert "2 jobs wait or run" in await _refusal(store, _job(3, ANYBODY))


async def test_large_arguments_have_a_limit_together() -> None:
    """One caller has at most half of the bytes, and all callers together have all of them."""
    async with _queue(100, 100) as (store, _):
        large = _job(1, "a")
        await store.create(large, "x" * 50, None)
        assert "the arguments of your jobs may have 50 bytes together" in await _refusal(store, _job(2, "a"), "x")
        await store.create(_job(3, "b"), "x" * 49, None)
        assert "100 bytes together (JOBS_MAX_PENDING_BYTES)" in await _refusal(store, _job(4, "c"), "x" * 2)
        await store.finish(large, "cancelled")
        await store.create(_job(5, "c"), "x" * 2, None)


async def test_a_repeated_submission_needs_no_place() -> None:
    """The reply of the first one may have been lost."""
    async with _queue(2) as (store, _):
        job = _job(1, "a")
        assert await store.create(job, "{}", "key") == job.id
        assert await store.create(_job(2, "a"), "{}", "key") == job.id
        await store.finish(job, "cancelled")
        await store.create(_job(3, "a"), "{}", None)


async def test_an_interrupted_submission_gives_its_place_back() -> None:
    """A job that is not in the queue after five minutes is deleted, with its idempotency key. Other old jobs stay."""
    async with _queue(6) as (store, _):
        interrupted, waiting = _job(1, "a", time.time() - 400), _job(2, "a", time.time() - 400)
        for job, key in ((interrupted, "key"), (waiting, None)):
            await store.create(job, "{}", key)
            if job is waiting:
                await store.note_queued(job.id)
        await store.create(_job(3, "a"), "{}", None)
        assert await store.load(interrupted.id) is None
        assert await store.load(waiting.id) is not None
        assert await store.create(_job(4, "a"), "{}", "key") == "job-4"
        assert "half" in await _refusal(store, _job(5, "a"))


async def test_places_that_an_older_worker_has_not_given_back_are_found() -> None:
    """A worker of version 0.2.0 only removes an ended job from the list of unfinished jobs."""
    async with _queue(4) as (store, docket):
        for number in (1, 2):
            await store.create(_job(number, "a"), "{}", None)
        async with docket.redis() as redis:
            await redis.zrem(docket.key("unfinished"), "job-1", "job-2")
        await store.create(_job(3, "a"), "{}", None)
        await store.create(_job(4, "a"), "{}", None)
        assert "half" in await _refusal(store, _job(5, "a"))
