"""Tests of requests that wait for Redis: they do not count as requests in flight."""

import asyncio

import pytest

from anyreplica.http.limits import InFlight
from anyreplica.http.responses import Refused

pytestmark = pytest.mark.anyio


async def test_a_waiting_request_gives_its_place_away() -> None:
    """Requests outside hold no place, and have one again afterwards, also after an error or a cancellation."""

    limit = InFlight(2)
    limit.acquire(None)
    limit.acquire(None)
    with pytest.raises(Refused):
        limit.acquire(None)
    async with limit.outside():
        limit.acquire(None)
        limit.release()
    with pytest.raises(ValueError, match="failed"):
        async with limit.outside():
            raise ValueError("failed")

    async def wait() -> None:
        async with limit.outside():
            await asyncio.Event().wait()

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    assert limit.count == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert limit.count == 2


async def test_the_number_of_waiting_requests_is_limited() -> None:
    """A request beyond the limit keeps its place, so at most twice as many requests are in the replica."""

    limit, go = InFlight(3), asyncio.Event()

    async def request() -> None:
        limit.acquire(None)
        try:
            async with limit.outside():
                await go.wait()
        finally:
            limit.release()

    tasks = [asyncio.ensure_future(request()) for _ in range(10)]
    await asyncio.sleep(0)
    assert limit.count == 3
    go.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(each, Refused) for each in ended) == 4
    assert limit.count == 0


async def test_requests_that_return_together_leave_places_for_others() -> None:
    """After a long wait, 100 requests return step by step, so another request always finds a place."""

    limit, go = InFlight(100), asyncio.Event()
    most = 0

    async def request() -> None:
        nonlocal most
        limit.acquire(None)
        async with limit.outside(long_seconds=0):
            await go.wait()
        most = max(most, limit.count)
        await asyncio.sleep(0)  # its work takes one turn of the event loop
        limit.release()

    tasks = [asyncio.ensure_future(request()) for _ in range(100)]
    await asyncio.sleep(0)
    assert limit.count == 0
    go.set()
    await asyncio.gather(*tasks)
    assert 70 < most <= 77
    assert limit.count == 0
