"""Limits that callers share: one caller alone cannot use them up."""

from anyreplica.http.in_flight import UNAVAILABLE
from anyreplica.http.refusal import Refused


class Shares:
    """Counts what all callers use of a limit. One caller may use at most its share.

    Args:
        most: The limit of all callers together.
        share: The limit of one caller. None: half of `most`.
    """

    def __init__(self, most: int, share: int | None = None) -> None:
        self.most = most
        self.share = max(1, most // 2) if share is None else share
        """The limit of one caller."""
        self.used = 0
        self._by_caller: dict[str, int] = {}

    def used_by(self, caller: str) -> int:
        """Return what a caller uses."""
        return self._by_caller.get(caller, 0)

    def room(self, caller: str) -> int:
        """Return how much more a caller may use. The number is negative if `add` has gone beyond a limit."""
        return min(self.most - self.used, self.share - self.used_by(caller))

    def add(self, caller: str, amount: int) -> None:
        """Count an amount, even beyond the limits. A negative amount is given back."""
        self.used += amount
        used = self.used_by(caller) + amount
        if used:
            self._by_caller[caller] = used
        else:
            self._by_caller.pop(caller, None)


class CallerPlaces:
    """Counts what each caller has in flight, and refuses a caller more than its share of places.

    The limit of all callers together is the one of an `InFlight`.

    Args:
        share: Maximum number for one caller.
        limit: The name of the counted thing and its limit, for the text of the error.
    """

    def __init__(self, share: int, limit: str) -> None:
        self.shares = Shares(share, share)
        self._limit = limit

    def acquire(self, caller: str, identity: int | str | None = None) -> None:
        """Count one more for a caller. Call `release` after it. Raise `Refused` (503) beyond the share."""
        share = self.shares.share
        if self.shares.used_by(caller) >= share:
            text = f"Server busy: you have {share} {self._limit}; retry when one of them ends."
            raise Refused(503, text, code=UNAVAILABLE, identity=identity, headers={"Retry-After": "1"})
        self.shares.add(caller, 1)

    def release(self, caller: str) -> None:
        self.shares.add(caller, -1)
