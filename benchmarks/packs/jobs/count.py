"""A job that does next to nothing, and one whose every run can be told afterwards."""

import functools
import os

from mcp_swarm import job
from redis.asyncio import Redis

URL = "BENCHMARK_COUNTERS_URL"
"""The variable that says in which Redis the counters are."""


@job
async def count(most: int) -> int:
    """Count to a number, and give it back."""
    number = 0
    while number < most:
        number += 1
    return number


@job
async def mark(counter: str) -> int:
    """Add one to a counter in Redis; gives what it stands at."""
    stands: int = await _redis().incr(counter)
    return stands


@functools.cache
def _redis() -> Redis:
    return Redis.from_url(os.environ[URL])
