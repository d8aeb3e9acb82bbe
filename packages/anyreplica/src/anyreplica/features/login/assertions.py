"""The assertions with which clients prove their identity (`private_key_jwt`): each one is small and valid once.

Anybody can be such a client: its id is the URL of a document. FastMCP remembers the used assertions of all clients
together, at most 10,000 of any size, and then refuses every client. So a replica remembers them by itself.
"""

import heapq
import math
import time
from dataclasses import dataclass

from joserfc.util import urlsafe_b64decode
from pydantic_core import from_json

from anyreplica.auth.caller import digest
from anyreplica.features.login.limits import current_request
from anyreplica.http.limits import Shares
from anyreplica.http.responses import Refused

LONGEST_ID = 256
"""Maximum number of characters in the id of an assertion (`jti`)."""
SKEW_SECONDS = 60
"""Time for which a used assertion is remembered after its expiry. FastMCP accepts clocks that differ by 30 seconds."""
_MOST = 50_000
"""Maximum number of assertions that a replica without Redis remembers, of all clients together. They need 13 MB."""
_SHARE = 10_000
"""Maximum number of remembered assertions of one client. An assertion expires within 330 s."""


@dataclass(frozen=True)
class AssertionId:
    """What identifies an assertion of a client.

    Attributes:
        id: its claim `jti`.
        until: time until which it must be remembered, in seconds since the epoch.
    """

    id: str
    until: float


def assertion_id(assertion: str) -> AssertionId:
    """Return what identifies an assertion, before its signature is verified.

    Raises:
        ValueError: the assertion has no `jti` and `exp`, or the `jti` is too long.
    """
    try:
        claims = from_json(urlsafe_b64decode(assertion.split(".")[1].encode()), allow_inf_nan=False)
        found, expires = claims["jti"], claims["exp"]
    except (ValueError, TypeError, LookupError):
        raise ValueError("The assertion must be a JWT with the claims jti and exp") from None
    if not isinstance(found, str) or not 0 < len(found) <= LONGEST_ID:
        raise ValueError(f"The jti of the assertion must be a text of at most {LONGEST_ID} characters")
    try:
        until = float(expires) + SKEW_SECONDS
    except (ValueError, TypeError, OverflowError):  # a whole number may have hundreds of digits
        until = math.inf
    if isinstance(expires, str) or not math.isfinite(until):
        raise ValueError("The claim exp of the assertion must be a number of seconds since 1970")
    return AssertionId(found, until)


class UsedAssertions:
    """The used assertions of clients, in the memory of a replica without Redis. Each client has a share of the places.

    Args:
        most: maximum number of assertions of all clients.
        share: maximum number of assertions of one client.
    """

    def __init__(self, most: int = _MOST, share: int = _SHARE) -> None:
        self._shares = Shares(most, share)
        self._used: set[str] = set()
        self._by_time: list[tuple[float, str, str]] = []
        """A heap: the time until which an assertion is remembered, the client, and the assertion."""

    def claim(self, client: str, assertion: AssertionId) -> None:
        """Remember a verified assertion.

        Raises:
            ValueError: it was used before, or there is no place for it. Without a place, the current request has the
                answer for the client.
        """
        owner, name = digest(client)[:32], digest(client, assertion.id)[:32]
        self._forget_expired()
        if name in self._used:
            raise ValueError("The assertion was used before")
        if self._shares.room(owner) <= 0:
            raise self._full(owner)
        self._shares.add(owner, 1)
        self._used.add(name)
        heapq.heappush(self._by_time, (assertion.until, owner, name))

    def _forget_expired(self) -> None:
        now = time.time()
        while self._by_time and self._by_time[0][0] <= now:
            _, owner, name = heapq.heappop(self._by_time)
            self._used.discard(name)
            self._shares.add(owner, -1)

    def _full(self, owner: str) -> ValueError:
        wait = {"Retry-After": "60"}
        if self._shares.used_by(owner) >= self._shares.share:
            text = (
                f"Too many assertions of this client: the limit is {self._shares.share} in five minutes; retry later."
            )
            refusal = Refused(429, text, headers=wait)
        else:
            text = f"Server busy: it remembers {self._shares.most} assertions of clients; retry later."
            refusal = Refused(503, text, headers=wait)
        current_request().refusal = refusal
        return ValueError(text)
