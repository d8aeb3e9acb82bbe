"""A limit that callers share: one caller alone cannot use it up."""


class Shares:
    """Counts what all callers use of a limit. One caller may use at most half of the limit.

    Args:
        most: The limit of all callers together.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.share = max(1, most // 2)
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
