"""Results that all replicas share, in Redis.

While Redis can't be reached it is as if it had none: no call waits for it more than once, and none fails.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from mcp_swarm.shared.lost_redis import reason

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ANSWER_SECONDS = 0.25
_AWAY_SECONDS = 1.0
"""For which a Redis that didn't answer isn't asked again."""
_LOOKS_APART = 0.02


@dataclass(frozen=True, slots=True)
class CachedResult:
    """One result. Times are those of `time.time`, which replicas share.

    Until `fresh` it is as good as a new one. Until `stale` it may be given while a new one is made.
    """

    value: Any
    fresh: float
    stale: float
    size: int
    """Bytes of it, as JSON and with its key."""


class SharedResults:
    """The part of the cache that is in Redis, under keys with a prefix."""

    def __init__(self, redis: "Redis", prefix: str) -> None:
        self._redis = redis
        self._prefix = f"{prefix}:cache:"
        self._away_until = 0.0

    @property
    def away(self) -> bool:
        """Whether Redis isn't asked at the moment."""
        return time.monotonic() < self._away_until

    async def get(self, key: str, adapter: TypeAdapter[Any]) -> CachedResult | None:
        """A result, if there is one that is of its tool's type."""
        found = await self._ask(lambda: self._redis.get(self._prefix + key))
        if not isinstance(found, bytes):
            return None
        try:
            fresh, stale, value = from_json(found)
            return CachedResult(adapter.validate_python(value), float(fresh), float(stale), len(found) + len(key))
        except (ValueError, TypeError):  # an older version's, whose results were of another type
            return None

    async def put(self, key: str, entry: CachedResult, written: bytes) -> None:
        """Keep a result, given as it is and as JSON."""
        text = b"[%b,%b,%b]" % (to_json(entry.fresh), to_json(entry.stale), written)
        left = max(1, round((entry.stale - time.time()) * 1000))
        await self._ask(lambda: self._redis.set(self._prefix + key, text, px=left))

    async def begin(self, key: str, adapter: TypeAdapter[Any], seconds: float) -> CachedResult | None:
        """Become the one replica that makes a result; `end` when it is made, or another may begin after `seconds`.

        Returns a good result that another replica has made meanwhile; None: make one.
        """
        making, left = f"{self._prefix}{key}:making", max(1, round(seconds * 1000))
        while True:
            begun = await self._ask(lambda: self._redis.set(making, b"1", nx=True, px=left))
            if self.away:
                return None
            entry = await self.get(key, adapter)
            if entry is not None and time.time() < entry.fresh:
                if begun:
                    await self.end(key)
                return entry
            if begun:
                return None
            await asyncio.sleep(_LOOKS_APART)

    async def end(self, key: str) -> None:
        """Let others begin."""
        await self._ask(lambda: self._redis.delete(f"{self._prefix}{key}:making"))

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        from redis.exceptions import RedisError  # noqa: PLC0415  # there is a client, so it is imported

        if self.away:
            return None
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await ask()
        except (RedisError, OSError, TimeoutError) as error:
            self._away_until = time.monotonic() + _AWAY_SECONDS
            logger.warning("The cache does without Redis: %s", reason(error))
            return None
