"""Codes and assertions that are valid only once, on all replicas together."""

import math
import time

from anyreplica.features.login.shared import SharedLogins


class SingleUse:
    """Marks in Redis: used codes, used assertions and revoked tokens. Each mark expires.

    Each method raises `LoginUnavailable` if Redis cannot be reached. The request is then refused: without Redis, no
    replica knows whether another replica has accepted the same code.
    """

    def __init__(self, shared: SharedLogins) -> None:
        self._shared = shared

    async def claim(self, kind: str, *parts: str, until: float) -> bool:
        """Set a mark that lasts until a time, in seconds since the epoch. Return False if it is set already."""
        seconds = max(1, math.ceil(until - time.time()))
        with self._shared.reaching():
            return bool(await self._shared.redis.set(self._shared.key(kind, *parts), b"", nx=True, ex=seconds))

    async def is_taken(self, kind: str, *parts: str) -> bool:
        """Return whether a mark is set."""
        with self._shared.reaching():
            return bool(await self._shared.redis.exists(self._shared.key(kind, *parts)))
