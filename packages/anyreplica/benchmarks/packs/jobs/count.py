"""A job that counts, and a job that counts its own runs in Redis."""

import functools
import os

from redis.asyncio import Redis

from anyreplica import job

URL = "BENCHMARK_COUNTERS_URL"
"""Environment variable with the URL of the counters' Redis."""


@job
async def count(most: int) -> int:
    """Count to a number and return the number."""
    number = 0
    while number < most:
        number += 1
    return number


@job
async def mark(counter: str) -> int:
    """Add 1 to a counter in Redis and return the counter."""
    value: int = await _redis().incr(counter)
    return value


@functools.cache
def _redis() -> Redis:
    return Redis.from_url(os.environ[URL])
