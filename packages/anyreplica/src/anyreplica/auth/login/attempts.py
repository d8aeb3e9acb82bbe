"""The rate limit of login requests from one address."""

import math
import time

from anyreplica.auth.login.shared import SharedLogins
from anyreplica.http.refusal import Refused
from anyreplica.settings.rate import Rate

_MOST = 10_000
"""Maximum number of addresses that a replica without Redis counts."""


class Attempts:
    """A counter of login requests by address. All replicas share it in Redis. Without Redis (`shared` is None), each
    replica counts alone.

    The counter begins anew in each period of the rate.
    """

    def __init__(self, rate: Rate, shared: SharedLogins | None) -> None:
        self._rate = rate
        self._shared = shared
        self._counts: dict[str, int] = {}
        self._period = 0

    async def count(self, address: str, cost: int) -> None:
        """Count a request.

        Raises:
            Refused: the address has sent too many requests (429).
            LoginUnavailable: Redis cannot be reached.
        """
        period, elapsed = divmod(time.time(), self._rate.seconds)
        if self._shared is None:
            count = self._count_here(address, int(period), cost)
        else:
            count = await self._count_in_redis(self._shared, address, int(period), cost)
        if count > self._rate.calls:
            wait = math.ceil(self._rate.seconds - elapsed)
            text = f"Too many login requests: the limit is {self._rate} (LOGIN_RATE_LIMIT); retry in {wait} s."
            raise Refused(429, text, headers={"Retry-After": str(wait)})

    def _count_here(self, address: str, period: int, cost: int) -> int:
        if period != self._period:
            self._period, self._counts = period, {}
        if address not in self._counts and len(self._counts) >= _MOST:
            address = ""  # all further addresses together
        self._counts[address] = count = self._counts.get(address, 0) + cost
        return count

    async def _count_in_redis(self, shared: SharedLogins, address: str, period: int, cost: int) -> int:
        key = shared.key("attempts", address, str(period))
        with shared.reaching():
            async with shared.redis.pipeline(transaction=True) as commands:
                commands.incrby(key, cost)
                commands.expire(key, math.ceil(self._rate.seconds) + 1)
                count, _ = await commands.execute()
        return int(count)
