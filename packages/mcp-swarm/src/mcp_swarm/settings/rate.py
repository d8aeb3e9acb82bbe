"""How often callers may call: a token bucket for each, and a bound of calls at once."""

import ipaddress
import re
from dataclasses import dataclass

from pydantic import Field, field_validator

from mcp_swarm.settings.words import SettingsGroup, WordList

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
        concurrent = -(-self.concurrent // replicas)
        return Rate(self.calls / replicas, self.seconds, max(1.0, self.burst / replicas), concurrent)

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


class RateSettings(SettingsGroup):
    """Of callers' rates, and of whom to believe where a call comes from."""

    rate_limit: str = ""
    """Calls of each caller that has no rate of its own, as `100/s`, `600/m`, `5000/h`, `20000/d`; beyond it: 429. With
    `REDIS_URL` all replicas together, else each. Empty: any number."""
    rate_burst: float | None = Field(None, ge=1)
    """Calls that may come at once. Empty: those of a quarter of a second, and ten at least."""
    rate_concurrent: int = Field(0, ge=0)
    """Calls of each caller that may run at once. 0: any number."""
    replica_rate_limit: str = ""
    """Calls of all callers that one replica takes. Empty: any number."""
    tool_costs: WordList = ()
    """Tools whose calls count for more than one, by patterns: `generate_report=10,sales_*=2`."""
    trusted_proxies: WordList = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` is believed, where callers that nobody asks who they are
    shall be told apart by it. Never the mesh's own."""

    @field_validator("rate_limit", "replica_rate_limit")
    @classmethod
    def _rate(cls, value: str) -> str:
        if value:
            parse(value)
        return value

    @field_validator("tool_costs")
    @classmethod
    def _costs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        _costs(value)
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ipaddress.ip_network(network)
        return value

    @property
    def rate(self) -> Rate:
        """Of callers that have none of their own."""
        return (parse(self.rate_limit) if self.rate_limit else NO_RATE).but(self.rate_burst, self.rate_concurrent)

    @property
    def replica_rate(self) -> Rate:
        """Of all callers together, in one replica."""
        return parse(self.replica_rate_limit) if self.replica_rate_limit else NO_RATE

    @property
    def costs(self) -> list[tuple[str, int]]:
        """Patterns of tools' names, each with what a call counts for."""
        return _costs(self.tool_costs)


def _costs(words: tuple[str, ...]) -> list[tuple[str, int]]:
    costs = []
    for word in words:
        pattern, _, cost = word.rpartition("=")
        if not pattern or not cost.isdecimal() or not cost.isascii() or not 0 < int(cost) <= 1_000_000:
            raise ValueError(f"{word!r} isn't like generate_report=10")
        costs.append((pattern, int(cost)))
    return costs
