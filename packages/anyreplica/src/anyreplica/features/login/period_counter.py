"""Sums by name, which begin anew in each period. All replicas share them in Redis."""

import math
import time

from anyreplica.features.login.shared import SharedLogins

_MOST = 10_000
"""Maximum number of names that a replica without Redis counts."""


class PeriodCounter:
    """Sums by name in the current period. Without Redis (`shared` is None), each replica counts alone.

    Args:
        kind: the name of the counter in Redis.
        seconds: the length of a period.
    """

    def __init__(self, kind: str, seconds: float, shared: SharedLogins | None) -> None:
        self._kind = kind
        self._seconds = seconds
        self._shared = shared
        self._sums: dict[str, int] = {}
        self._period = 0

    @property
    def wait(self) -> int:
        """Seconds until the next period."""
        return math.ceil(self._seconds - time.time() % self._seconds)

    async def add(self, amount: int, *names: str) -> list[int]:
        """Add an amount to the sum of each name. Return the sums. An amount of 0 only reads them.

        Raises:
            LoginUnavailable: Redis cannot be reached.
        """
        period = int(time.time() // self._seconds)
        if self._shared is None:
            return [self._add_here(amount, name, period) for name in names]
        return await self._add_in_redis(self._shared, amount, names, period)

    def _add_here(self, amount: int, name: str, period: int) -> int:
        if period != self._period:
            self._period, self._sums = period, {}
        if name not in self._sums and len(self._sums) >= _MOST:
            name = ""  # all further names together
        self._sums[name] = found = self._sums.get(name, 0) + amount
        return found

    async def _add_in_redis(self, shared: SharedLogins, amount: int, names: tuple[str, ...], period: int) -> list[int]:
        with shared.reaching():
            async with shared.redis.pipeline(transaction=True) as commands:
                for name in names:
                    key = shared.key(self._kind, name, str(period))
                    commands.incrby(key, amount)
                    commands.expire(key, math.ceil(self._seconds) + 1)
                found = await commands.execute()
        return [int(each) for each in found[::2]]
