"""The used nonces of signed requests. A nonce is valid for one request on all replicas together."""

import hashlib
import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from anyreplica.shared.outage import Outage

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)


class NoncesFull(Exception):
    """The memory of the replica has no space for another nonce, and Redis does not answer."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most


class Nonces:
    """The used nonces, in Redis and in this replica's memory.

    Redis stores the accepted nonces of all replicas. Without Redis, or while Redis can't be reached, a replica checks
    only the nonces that it accepted itself. Another replica might then accept the same request a second time. The
    replica logs a warning when it loses Redis.

    The memory of a replica holds at most `most` nonces of about 200 bytes each. A full memory drops no nonce before
    its time ends. A replica with a full memory refuses new nonces, unless Redis answers.

    `seconds` is the time for which a nonce is stored, because a client could send it again during this time. `prefix`
    is the prefix of the keys in Redis.
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
        """The time at which each nonce may be dropped. The oldest nonce is first: all are stored for the same time."""
        self._full = False
        self._outage = Outage(logger, "a replica refuses a nonce only if it accepted that nonce itself")

    async def claim(self, key_id: str, nonce: str) -> bool:
        """Mark a nonce of a key as used. Return False if it was used before.

        Raises:
            NoncesFull: the replica can neither store the nonce nor ask Redis.
        """
        mark = hashlib.sha256(f"{key_id}\0{nonce}".encode()).digest()
        now = self._clock()
        while self._own and self._own[first := next(iter(self._own))] <= now:
            del self._own[first]
        if mark in self._own:
            return False
        # Store the nonce before the wait for Redis, so that only the first of two simultaneous requests succeeds.
        noted = self._note(mark)
        fresh = await self._ask(mark)
        if fresh is None and not noted:
            raise NoncesFull(self._most)
        return fresh is not False

    def _note(self, mark: bytes) -> bool:
        full = len(self._own) >= self._most
        if full and not self._full:
            text = "Nonce limit reached: %d nonces in memory; signed requests are refused unless Redis answers"
            logger.warning(text, self._most)
        self._full = full or (self._full and len(self._own) > self._most // 2)
        if not full:
            self._own[mark] = self._clock() + self._keep
        return not full

    async def _ask(self, mark: bytes) -> bool | None:
        """Return whether the nonce is new in Redis, or None if Redis does not answer."""
        if self._redis is None:
            return None
        with self._outage.best_effort():
            key = f"{self._prefix}:nonce:{mark.hex()}"
            return bool(await self._redis.set(key, b"", nx=True, ex=self._keep))
        return None
