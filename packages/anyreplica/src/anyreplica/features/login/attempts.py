"""The rate limit of login requests from one address."""

from anyreplica.features.login.period_counter import PeriodCounter
from anyreplica.features.login.shared import SharedLogins
from anyreplica.http.refusal import Refused
from anyreplica.settings.rate import Rate


class Attempts:
    """A counter of login requests by address, on all replicas together. It begins anew in each period of the rate."""

    def __init__(self, rate: Rate, shared: SharedLogins | None) -> None:
        self._rate = rate
        self._counter = PeriodCounter("attempts", rate.seconds, shared)

    async def count(self, address: str, cost: int) -> None:
        """Count a request.

        Raises:
            Refused: the address has sent too many requests (429).
            LoginUnavailable: Redis cannot be reached.
        """
        (count,) = await self._counter.add(cost, address)
        if count > self._rate.calls:
            wait = self._counter.wait
            text = f"Too many login requests: the limit is {self._rate} (LOGIN_RATE_LIMIT); retry in {wait} s."
            raise Refused(429, text, headers={"Retry-After": str(wait)})
