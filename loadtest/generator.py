"""The load: always so many calls in flight, none sent in batches."""

import asyncio
import itertools
import ssl
import time
from collections.abc import Callable

import httpx

from loadtest.call import Outcome, echo


async def run(
    url: str,
    *,
    requests: int,
    concurrent: int,
    token: str | None,
    patience: float,
    done: Callable[[Outcome], None],
) -> float:
    """Send `requests` calls, `concurrent` of them in flight until the last are sent.

    Each of the concurrent callers has a connection of its own, which it keeps.

    Args:
        patience: seconds after which a call has failed.
        done: called with each outcome as it comes.

    Returns:
        Seconds from the first send to the last reply.
    """
    numbers = itertools.count(1)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # One for all: a client that makes its own spends 25 ms on reading certificates.
    tls = ssl.create_default_context() if url.startswith("https:") else False

    async def caller() -> None:
        async with httpx.AsyncClient(headers=headers, timeout=patience, verify=tls) as client:
            while (number := next(numbers)) <= requests:
                done(await echo(client, url, number))

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrent, requests)):
            group.create_task(caller())
    return time.perf_counter() - started
