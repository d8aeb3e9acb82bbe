"""What is measured of jobs, a function for each; every result that is read is checked."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.job_caller import Caller, CallerError, calling

CALLERS = 32
"""Connections over which jobs are submitted where the workers shall be busy."""

_COUNT_TO = 100
_PAUSE = 0.05
"""Seconds between two looks at a result that isn't there; shorter ones would take the CPU from the workers."""
_SHORT_PAUSE = 0.001
_TWICE = 10
"""Every so many submissions one is sent twice at once."""


async def waiting(port: int, jobs: int) -> set[str]:
    """Submit so many jobs of which none shall be done; returns their ids."""
    ids: set[str] = set()
    async with calling(port) as caller:
        for _ in range(jobs):
            ids.add(await caller.submit("count", {"most": _COUNT_TO}))
        for identity in ids:
            if (state := await caller.status(identity)) != "pending":
                raise CallerError(f"a job that no worker has is {state}")
    return ids


async def throughput(ports: Sequence[int], jobs: int) -> float:
    """Submit jobs over many connections and read all results; returns the jobs per second."""
    shares = [len(range(number, jobs, CALLERS)) for number in range(CALLERS)]

    async def work(caller: Caller, share: int) -> None:
        ids = [await caller.submit("count", {"most": _COUNT_TO}) for _ in range(share)]
        for identity in ids:
            await _counted(caller, identity, _PAUSE)

    async with AsyncExitStack() as stack:
        callers = [
            await stack.enter_async_context(calling(ports[number % len(ports)])) for number in range(len(shares))
        ]
        began = time.perf_counter()
        await _all(work(caller, share) for caller, share in zip(callers, shares, strict=True))
        return jobs / (time.perf_counter() - began)


async def latencies(port: int, calls: int) -> dict[str, list[float]]:
    """One caller alone, one call after the other; the seconds of each, sorted.

    Returns:
        `submit`: a submission; `status`: a look at the status of a finished job; `alone`: a submission until the
        result, of a tenth as many jobs with nothing else to do.
    """
    async with calling(port) as caller:
        ids: list[str] = []

        async def submit() -> None:
            ids.append(await caller.submit("count", {"most": _COUNT_TO}))

        async def status() -> None:
            if (state := await caller.status(ids[-1])) != "completed":
                raise CallerError(f"a job that had a result is {state}")

        async def alone() -> None:
            await submit()
            await _counted(caller, ids[-1], _SHORT_PAUSE)

        submits = await _timed(submit, calls)
        for identity in ids:
            await _counted(caller, identity, _PAUSE)
        return {
            "submit": submits,
            "status": await _timed(status, calls),
            "alone": await _timed(alone, max(1, calls // 10)),
        }


async def once(ports: Sequence[int], submitters: int, each: int) -> float:
    """Many submitters at once, each job with a key and a counter of its own; returns the seconds until the last result.

    Every tenth submission is sent twice at once, to two replicas if there are two, as by a caller who is impatient.
    """

    async def work(number: int) -> None:
        near, other = ports[number % len(ports)], ports[(number + 1) % len(ports)]
        async with calling(near) as caller, calling(other) as second:
            ids = []
            for serial in range(each):
                counter = f"counter-{number}-{serial}"
                callers = [caller, second] if serial % _TWICE == 0 else [caller]
                found = await asyncio.gather(*(one.submit("mark", {"counter": counter}, counter) for one in callers))
                if len(set(found)) > 1:
                    raise CallerError(f"one Idempotency-Key gave two jobs: {found}")
                ids.append(found[0])
            for identity in ids:
                await caller.result(identity, _PAUSE)

    began = time.perf_counter()
    await _all(work(number) for number in range(submitters))
    return time.perf_counter() - began


async def _counted(caller: Caller, identity: str, pause: float) -> None:
    if (result := await caller.result(identity, pause)) != _COUNT_TO:
        raise CallerError(f"wrong result: {result}, not {_COUNT_TO}")


async def _timed(call: Callable[[], Awaitable[None]], times: int) -> list[float]:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await call()
        took.append(time.perf_counter() - began)
    return sorted(took)


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all at once; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
