"""Results of tools, in this replica's memory, and in the Redis that all replicas share if there is one."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from cachetools import LRUCache

from mcp_swarm.components.cache.shared_results import CachedResult, SharedResults
from mcp_swarm.components.outcome import Outcome
from mcp_swarm.process import eager_task

Answer = Literal["hit", "stale", "miss", "shared", "bypassed"]
"""How a call was answered: by a result that is good, by one that is being renewed, by running the tool, by another
call's run or another replica's result, by running the tool since Redis is away."""


class Cache:
    """What the tools of a replica have returned, and what is being made. It holds at most `most` bytes in memory.

    `shared` is set before the first call. `counts` has the calls, by tool and how they were answered.
    """

    def __init__(self, most: int) -> None:
        self.counts: Counter[tuple[str, Answer]] = Counter()
        self.shared: SharedResults | None = None
        self.memory: LRUCache[bytes, CachedResult] = LRUCache(most, getsizeof=lambda entry: entry.size)
        self.runs: dict[bytes, asyncio.Task[Outcome]] = {}
        """What makes the result of a key, for all who wait for it."""

    def keep(self, key: bytes, entry: CachedResult) -> None:
        """Keep a result in memory, unless it is larger than all of that."""
        if entry.size <= self.memory.maxsize:
            self.memory[key] = entry

    def start(self, key: bytes, make: Callable[[], Awaitable[Any]]) -> asyncio.Task[Outcome]:
        """Make a result, in a task that goes on when whoever asked first has gone."""
        task = eager_task.start(_outcome(make), loop=asyncio.get_running_loop())
        if not task.done():
            self.runs[key] = task
            task.add_done_callback(lambda _: self.runs.pop(key))
        return task


async def _outcome(make: Callable[[], Awaitable[Any]]) -> Outcome:
    try:
        return Outcome(await make())
    except BaseException as error:  # noqa: BLE001  # SystemExit in a task would end the process
        return Outcome(error=error)
