"""The measurements of jobs, one function each; every result is checked."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from benchmarks.jobs.caller import Caller, calling
from benchmarks.load import LoadError

CALLERS = 32
"""Number of connections that keep the workers busy."""

_COUNT_TO = 100
_PAUSE = 0.05
"""Seconds between two requests for a result; a shorter pause would take CPU time from the workers."""
_SHORT_PAUSE = 0.001
_TWICE = 10
"""Every tenth submission is sent twice at the same time."""


async def waiting(port: int, jobs: int) -> None:
    """Submit jobs while no worker runs."""
    async with calling(port) as caller:
        ids = [await caller.submit("count", {"most": _COUNT_TO}) for _ in range(jobs)]
        if (state := await caller.status(ids[-1])) != "pending":
            raise LoadError(f"a job without a worker is {state}")


async def throughput(ports: Sequence[int], jobs: int) -> float:
    """Submit jobs over many connections, read all results, and return the jobs per second."""
    shares = [len(range(number, jobs, CALLERS)) for number in range(CALLERS)]

    async def work(caller: Caller, share: int) -> None:
        ids = [await caller.submit("count", {"most": _COUNT_TO}) for _ in range(share)]
        for identity in ids:
            await _counted(caller, identity, _PAUSE)

    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(calling(ports[at % len(ports)])) for at in range(CALLERS)]
        began = time.perf_counter()
        await asyncio.gather(*(work(caller, share) for caller, share in zip(callers, shares, strict=True)))
        return jobs / (time.perf_counter() - began)


async def latencies(port: int, calls: int) -> dict[str, list[float]]:
    """Let one caller make one call after the other, and return the sorted seconds of the calls.

    Returns:
        `submit`: `calls` submissions. `status`: `calls` status requests for a finished job. `alone`: a tenth of `calls`
        jobs, from the submission to the result.
    """
    async with calling(port) as caller:
        ids: list[str] = []

        async def submit() -> None:
            ids.append(await caller.submit("count", {"most": _COUNT_TO}))

        async def status() -> None:
            if (state := await caller.status(ids[-1])) != "completed":
                raise LoadError(f"a job that has a result is {state}")

        async def alone() -> None:
            await submit()
            await _counted(caller, ids[-1], _SHORT_PAUSE)

        submits = await _timed(submit, calls)
        for identity in ids:
            await _counted(caller, identity, _PAUSE)
        statuses = await _timed(status, calls)
        return {"submit": submits, "status": statuses, "alone": await _timed(alone, max(1, calls // 10))}


async def once(ports: Sequence[int], submitters: int, each: int) -> float:
    """Let many submitters send jobs with an Idempotency-Key, and return the seconds until the last result.

    Each job has a counter of its own. Every tenth submission is sent twice at the same time, to two replicas if there
    are two, like the retry of an impatient caller.
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
                    raise LoadError(f"one Idempotency-Key gave two jobs: {found}")
                ids.append(found[0])
            for identity in ids:
                await caller.result(identity, _PAUSE)

    began = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(submitters)))
    return time.perf_counter() - began


async def _counted(caller: Caller, identity: str, pause: float) -> None:
    if (result := await caller.result(identity, pause)) != _COUNT_TO:
        raise LoadError(f"wrong result: {result}, not {_COUNT_TO}")


async def _timed(call: Callable[[], Awaitable[None]], times: int) -> list[float]:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await call()
        took.append(time.perf_counter() - began)
    return sorted(took)
