"""Nonces that were used: each is good for one request, whichever replica it comes to."""

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_swarm.shared.lost_redis import reason

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 1.0
_PAUSE_SECONDS = 1.0
"""Time until a Redis that didn't answer is asked again, and then by one request only."""


class Nonces:
    """Takes each nonce once.

    Redis knows what other replicas have taken. Without it, or while it can't be reached, a replica knows what it has
    taken itself, so a request might be repeated on another one; the log says so when that begins. A replica's memory is
    bounded: it holds `most` nonces, each of about 200 bytes. A full one forgets nothing: it refuses what is new, unless
    Redis answers.

    A nonce is remembered for `seconds`: for so long it could be used again. `prefix` is that of the keys in Redis.
    """

    def __init__(
        self,
        redis: "Redis | None",
        prefix: str,
        seconds: float,
        *,
        most: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self._keep = math.ceil(seconds) + 1
        self._redis = redis
        self._prefix = prefix
        self._most = most
        self._clock = clock
        self._own: dict[bytes, float] = {}
        """When each may be forgotten; the oldest stand first, as all are kept for the same time."""
        self._full = False
        self._away = False
        self._ask_again = 0.0

    async def take(self, key_id: str, nonce: str) -> bool:
        """Use up a nonce of a key's; False if it was used before, or if that can't be known."""
        mark = hashlib.sha256(f"{key_id}\0{nonce}".encode()).digest()
        now = self._clock()
        while self._own and self._own[first := next(iter(self._own))] <= now:
            del self._own[first]
        if mark in self._own:
            return False
        # Noted ahead of the wait: of requests that come at the same time, the first has it.
        noted = self._note(mark)
        fresh = await self._ask(mark)
        return noted if fresh is None else fresh

    def _note(self, mark: bytes) -> bool:
        full = len(self._own) >= self._most
        if full and not self._full:
            text = "This replica remembers %d nonces, as many as it may; without Redis it takes no more"
            logger.warning(text, self._most)
        self._full = full or (self._full and len(self._own) > self._most // 2)
        if not full:
            self._own[mark] = self._clock() + self._keep
        return not full

    async def _ask(self, mark: bytes) -> bool | None:
        """Whether Redis hadn't seen it; None if it can't be asked."""
        if self._redis is None or (self._away and self._clock() < self._ask_again):
            return None
        from redis.exceptions import RedisError  # noqa: PLC0415  # as in mcp_swarm.shared.redis

        self._ask_again = self._clock() + _PAUSE_SECONDS
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):  # the client itself would try for longer
                fresh = await self._redis.set(f"{self._prefix}:nonce:{mark.hex()}", b"", nx=True, ex=self._keep)
        except (RedisError, OSError) as error:
            if not self._away:
                text = "Redis can't be reached, so a replay is refused by the same replica only: %s"
                logger.warning(text, reason(error))
            self._away = True
            self._ask_again = self._clock() + _PAUSE_SECONDS
            return None
        self._away = False
        return bool(fresh)
