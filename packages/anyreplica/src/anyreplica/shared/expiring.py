"""A dictionary whose entries expire."""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")

_SPARE = 100
"""Number of outdated times that the heap of a small dictionary may have."""


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    expires: float
    due: float
    """The earliest time for which the heap has this entry."""


class Expiring(Generic[V]):
    """A dictionary whose entries expire. No method takes longer the more entries there are.

    The heap has a time for each entry, at which the entry may expire. If the lifetime of an entry is extended, the
    heap does not change at once. The entry gets its new time in the heap when the old time comes. The heap also has
    times of entries that were removed, but never more than times of others.

    Args:
        on_expire: a function to call with each value that expires.
    """

    def __init__(self, on_expire: Callable[[V], object] = lambda _: None) -> None:
        self._on_expire = on_expire
        self._entries: dict[str, _Entry[V]] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, name: str, value: V, seconds: float) -> None:
        """Add an entry that expires in `seconds`. An older entry of the same name expires now."""
        self.remove(name)
        expires = time.monotonic() + seconds
        self._entries[name] = _Entry(value, expires, expires)
        self._push(expires, name)

    def remove(self, name: str) -> None:
        """Let an entry expire now."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._on_expire(entry.value)

    def get(self, name: str) -> V | None:
        """Return the value of a name. None: there is none, or it has expired."""
        entry = self._entries.get(name)
        return None if entry is None or entry.expires < time.monotonic() else entry.value

    def keep(self, name: str, seconds: float) -> None:
        """Let an entry expire in `seconds` from now, be it sooner or later than before."""
        entry = self._entries.get(name)
        if entry is None:
            return
        entry.expires = time.monotonic() + seconds
        if entry.expires < entry.due:
            entry.due = entry.expires
            self._push(entry.due, name)

    def _push(self, due: float, name: str) -> None:
        heapq.heappush(self._heap, (due, name))
        if len(self._heap) > 2 * len(self._entries) + _SPARE:
            self._heap = [(entry.due, each) for each, entry in self._entries.items()]
            heapq.heapify(self._heap)

    def expire(self) -> None:
        """Remove all entries that have expired."""
        now = time.monotonic()
        while self._heap and self._heap[0][0] < now:
            due, name = heapq.heappop(self._heap)
            entry = self._entries.get(name)
            if entry is None or due != entry.due:  # an entry that expired sooner than the heap knew at first
                continue
            if entry.expires < now:
                del self._entries[name]
                self._on_expire(entry.value)
            else:
                entry.due = entry.expires
                heapq.heappush(self._heap, (entry.due, name))
