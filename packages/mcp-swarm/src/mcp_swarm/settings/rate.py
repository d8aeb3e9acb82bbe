"""A caller's allowance: a token bucket and a bound of calls at once."""

import re
from dataclasses import dataclass

_FORM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(?:/(s|m|h|d))?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS = {seconds: unit for unit, seconds in _SECONDS.items()}
_LEAST_BURST = 10.0
"""An agent's first calls come together: it discovers, lists, and calls."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How many tokens come back, how many are kept at most, and how many calls may run at once.

    Attributes:
        calls: in `seconds`; 0 for no bound.
        burst: calls that may come at once.
        concurrent: calls; 0 for no bound.
    """

    calls: float
    seconds: float
    burst: float
    concurrent: int = 0

    @property
    def per_second(self) -> float:
        """Tokens that come back per second; 0 for no bound."""
        return self.calls / self.seconds

    @property
    def bounds(self) -> bool:
        """Whether it bounds anything."""
        return bool(self.calls or self.concurrent)

    def but(self, burst: float | None = None, concurrent: int | None = None) -> "Rate":
        """The same, but for what is given."""
        return Rate(
            self.calls,
            self.seconds,
            self.burst if burst is None else burst,
            self.concurrent if concurrent is None else concurrent,
        )

    def share(self, replicas: int) -> "Rate":
        """One replica's part of it, by which a caller is at least let in now and then."""
        return Rate(
            self.calls / replicas,
            self.seconds,
            max(1.0, self.burst / replicas),
            -(-self.concurrent // replicas),
        )

    def __str__(self) -> str:
        return f"{self.calls:g}/{_UNITS[self.seconds]}"


NO_RATE = Rate(0, 1, 1)


def parse(text: str) -> Rate:
    """Read a rate such as `100/s`, `600/m`, `5000/h`, `20000/d` or plain `100`, which is per second.

    Its burst is what comes back in a quarter of a second, and ten at least.

    Raises:
        ValueError: it is none.
    """
    found = _FORM.fullmatch(text.strip())
    calls = float(found[1]) if found else 0.0
    if found is None or not calls:
        raise ValueError(f"{text!r} is no rate; one is like 100/s, 600/m, 5000/h or 20000/d")
    seconds = _SECONDS[found[2] or "s"]
    return Rate(calls, seconds, max(_LEAST_BURST, calls / seconds / 4))
