"""The limit of what anybody can store with registrations and logins that have begun."""

from anyreplica.features.login.current import current_request
from anyreplica.features.login.period_counter import PeriodCounter
from anyreplica.features.login.shared import SharedLogins
from anyreplica.http.refusal import Refused

_SECONDS = 600.0
_MOST_OF_ADDRESS = 1024 * 1024
"""Maximum number of bytes from one address in each period: 400 registrations with their logins."""
_MOST = 8 * 1024 * 1024
"""Maximum number of bytes from all addresses in each period. What nobody uses expires within an hour, so at most seven
times as many bytes are stored at once. The Redis of the Helm chart has 192 MB."""
_OVERHEAD = 200
"""Number of bytes that Redis needs for a value besides the value itself."""
_ALL = "all"


class StoredBytes:
    """A counter of stored bytes by address and of all addresses. All replicas share it in Redis.

    Args:
        most: maximum number of bytes from all addresses in each period.
    """

    def __init__(self, shared: SharedLogins | None, *, most: int = _MOST) -> None:
        self._most = most
        self._counter = PeriodCounter("stored", _SECONDS, shared)

    async def check(self, address: str) -> None:
        """Check that an address may store more.

        Raises:
            Refused: the address (429) or all addresses together (503) have stored too much.
            LoginUnavailable: Redis cannot be reached.
        """
        own, total = await self._counter.add(0, f"of {address}", _ALL)
        wait = self._counter.wait
        headers = {"Retry-After": str(wait)}
        if own >= _MOST_OF_ADDRESS:
            text = f"Too many registrations and logins from your address: the limit is {_MOST_OF_ADDRESS} stored bytes"
            raise Refused(429, f"{text} in {_SECONDS:g} s; retry in {wait} s.", headers=headers)
        if total >= self._most:
            text = f"Server busy: too many registrations and logins: the limit is {self._most} stored bytes"
            raise Refused(503, f"{text} in {_SECONDS:g} s; retry in {wait} s.", headers=headers)

    async def add(self, size: int) -> None:
        """Count the bytes of a value that the current request stores."""
        request = current_request()
        if request.counts:
            await self._counter.add(size + _OVERHEAD, f"of {request.address}", _ALL)
