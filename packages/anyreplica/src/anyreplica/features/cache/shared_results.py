"""The tool results that all replicas share in Redis.

While Redis cannot be reached, calls find no shared results, but they do not fail. Each command waits for Redis for at
most 0.25 seconds. After a failed command, the replica sends no command to Redis for one second.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from anyreplica.shared.outage import Outage

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ANSWER_SECONDS = 0.25
_AWAY_SECONDS = 1.0
"""Seconds for which no command is sent to Redis after a command failed."""
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class CachedResult:
    """One cached result.

    Attributes:
        fresh: time until which callers get the result without a new run of the tool.
        stale: time until which callers still get the result while the tool runs for a new one.

    Both times are in seconds since the epoch (`time.time`), because replicas compare them.
    """

    value: Any
    fresh: float
    stale: float
    size: int
    """Size of the result as JSON plus its key, in bytes."""


class SharedResults:
    """The part of the cache in Redis. All its keys start with `prefix`."""

    def __init__(self, redis: "Redis", prefix: str) -> None:
        self._redis = redis
        self._prefix = f"{prefix}:cache:"
        self._outage = Outage(logger, "cached tools use the memory of this replica only")
        self._away_until = 0.0

    @property
    def away(self) -> bool:
        """Whether a command failed less than one second ago. Then no command is sent to Redis."""
        return time.monotonic() < self._away_until

    async def get(self, key: str, adapter: TypeAdapter[Any]) -> CachedResult | None:
        """Return a result, or None if there is no result of the tool's return type."""
        found = await self._ask(lambda: self._redis.get(self._prefix + key))
        if not isinstance(found, bytes):
            return None
        try:
            fresh, stale, value = from_json(found)
            return CachedResult(adapter.validate_python(value), float(fresh), float(stale), len(found) + len(key))
        except (ValueError, TypeError):  # an older version of the tool returned another type
            return None

    async def put(self, key: str, entry: CachedResult, written: bytes) -> None:
        """Store a result; `written` is its value as JSON."""
        text = b"[%b,%b,%b]" % (to_json(entry.fresh), to_json(entry.stale), written)
        left = max(1, round((entry.stale - time.time()) * 1000))
        await self._ask(lambda: self._redis.set(self._prefix + key, text, px=left))

    async def begin(self, key: str, adapter: TypeAdapter[Any], seconds: float) -> CachedResult | None:
        """Wait for another replica's fresh result, or claim the right to run the tool.

        Return the other replica's result. Return None if this replica must run the tool; then call `end` after the
        run. Without `end`, the claim expires after `seconds`.
        """
        making, left = f"{self._prefix}{key}:making", max(1, round(seconds * 1000))
        while True:
            has_started = await self._ask(lambda: self._redis.set(making, b"1", nx=True, px=left))
            if self.away:
                return None
            entry = await self.get(key, adapter)
            if entry is not None and time.time() < entry.fresh:
                if has_started:
                    await self.end(key)
                return entry
            if has_started:
                return None
            await asyncio.sleep(_POLL_SECONDS)

    async def end(self, key: str) -> None:
        """Release the claim of this replica, so that other replicas may run the tool."""
        await self._ask(lambda: self._redis.delete(f"{self._prefix}{key}:making"))

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        if self.away:
            return None
        with self._outage.best_effort():
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await ask()
        self._away_until = time.monotonic() + _AWAY_SECONDS
        return None
