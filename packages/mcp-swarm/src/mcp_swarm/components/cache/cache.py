"""Results of tools, in this replica's memory, and in the Redis that all replicas share if there is one."""

from collections import Counter
from typing import Literal

from cachetools import LRUCache

from mcp_swarm.components.cache.entry import Entry
from mcp_swarm.components.cache.flights import Flights
from mcp_swarm.components.cache.shared_results import Shared

Answer = Literal["hit", "stale", "miss", "shared", "bypassed"]
"""How a call was answered: by a result that is good, by one that is being renewed, by running the tool, by another
call's run or another replica's result, by running the tool since Redis is away."""


class Cache:
    """What the tools of a replica have returned.

    Args:
        most: bytes in memory; what wasn't asked for for longest goes first.
    """

    def __init__(self, most: int) -> None:
        self.counts: Counter[tuple[str, Answer]] = Counter()
        """Calls, by tool and how they were answered."""
        self.shared: Shared | None = None
        """What replicas share; set before the first call."""
        self.flights = Flights()
        self._memory: LRUCache[bytes, Entry] = LRUCache(most, getsizeof=lambda entry: entry.size)

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return int(self._memory.currsize)

    def look(self, key: bytes) -> Entry | None:
        """What memory has, good or not."""
        entry: Entry | None = self._memory.get(key)
        return entry

    def keep(self, key: bytes, entry: Entry) -> None:
        """Keep a result in memory, unless it is larger than all of that."""
        if entry.size <= self._memory.maxsize:
            self._memory[key] = entry
