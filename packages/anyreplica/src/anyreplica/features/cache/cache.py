"""The cache of tool results: in this replica's memory, and in Redis if the replicas share one."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from cachetools import LRUCache

from anyreplica.components.outcome import Outcome
from anyreplica.features.cache.shared_results import CachedResult, SharedResults
from anyreplica.process.tasks import start_eagerly

Answer = Literal["hit", "stale", "miss", "shared", "bypassed"]
"""How a call of a cached tool was answered.

- hit: with a fresh result.
- stale: with an old result, while the tool runs to renew the result.
- miss: with the result of a new run of the tool.
- shared: with the result of another call's run, or of another replica.
- bypassed: with the result of a new run of the tool, because Redis could not be reached or too many runs go on.
"""


class Cache:
    """The results of a replica's cached tools, and the runs that produce new results.

    Args:
        most: maximum size of the results in memory, in bytes.
        most_runs: maximum number of runs that continue without their call.

    Attributes:
        counts: number of calls, by tool and by how the call was answered.
        shared: the results in Redis. It is set before the first call; None without Redis.
        memory: the results in this replica's memory.
    """

    def __init__(self, most: int, most_runs: int) -> None:
        self._most_runs = most_runs
        self.counts: Counter[tuple[str, Answer]] = Counter()
        self.shared: SharedResults | None = None
        self.memory: LRUCache[bytes, CachedResult] = LRUCache(most, getsizeof=lambda entry: entry.size)
        self.runs: dict[bytes, asyncio.Task[Outcome]] = {}
        """The running task that produces a result, by key. All calls with the same key wait for this task."""

    def keep(self, key: bytes, entry: CachedResult) -> None:
        """Keep a result in memory, unless the result is larger than the whole cache."""
        if entry.size <= self.memory.maxsize:
            self.memory[key] = entry

    @property
    def is_busy(self) -> bool:
        """Whether no further run may start that continues without its call."""
        return len(self.runs) >= self._most_runs

    def start(self, key: bytes, make: Callable[[], Awaitable[Any]]) -> asyncio.Task[Outcome]:
        """Start a task that produces a result. The task continues when the call that started it is cancelled."""
        task = start_eagerly(_outcome(make), loop=asyncio.get_running_loop())
        if not task.done():
            self.runs[key] = task
            task.add_done_callback(lambda _: self.runs.pop(key))
        return task


async def _outcome(make: Callable[[], Awaitable[Any]]) -> Outcome:
    try:
        return Outcome(await make())
    except BaseException as error:  # noqa: BLE001  # a SystemExit in a task would end the process
        return Outcome(error=error)
