"""The rate of a caller: a token bucket, and a limit of calls that run at the same time."""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from anyreplica.settings.words import SettingsGroup

_FORM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(?:/(s|m|h|d))?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS = {seconds: unit for unit, seconds in _SECONDS.items()}
_LEAST_BURST = 10.0
"""Minimum burst, in calls. An agent sends its first calls together: it discovers the server, lists tools, and calls."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: the refill and the size of a token bucket, and a limit of calls that run at the same time.

    Attributes:
        calls: Number of calls per `seconds`. 0: no limit.
        seconds: Length of the period, in seconds.
        burst: Size of the bucket: number of calls that may come at once.
        concurrent: Maximum number of calls that run at the same time. 0: no limit.
    """

    calls: float
    seconds: float
    burst: float
    concurrent: int = 0

    @property
    def per_second(self) -> float:
        """Number of tokens that return to the bucket per second. 0: no limit."""
        return self.calls / self.seconds

    @property
    def bounds(self) -> bool:
        """Whether this rate limits anything."""
        return bool(self.calls or self.concurrent)

    def replace(self, burst: float | None = None, concurrent: int | None = None) -> "Rate":
        """Return a copy with another burst or concurrency. None keeps the value."""
        return Rate(
            self.calls,
            self.seconds,
            self.burst if burst is None else burst,
            self.concurrent if concurrent is None else concurrent,
        )

    def share(self, replicas: int) -> "Rate":
        """Return the share of one replica. Its burst and its concurrency allow at least one call."""
        concurrent = -(-self.concurrent // replicas)
        return Rate(self.calls / replicas, self.seconds, max(1.0, self.burst / replicas), concurrent)

    def __str__(self) -> str:
        return f"{self.calls:g}/{_UNITS[self.seconds]}"


NO_RATE = Rate(0, 1, 1)


def parse(text: str) -> Rate:
    """Parse a rate such as `100/s`, `600/m`, `5000/h` or `20000/d`. A plain `100` means 100 per second.

    The burst is the number of calls of a quarter of a second, and at least 10.

    Raises:
        ValueError: The text is not a rate.
    """
    found = _FORM.fullmatch(text.strip())
    calls = float(found[1]) if found else 0.0
    if found is None or not calls:
        raise ValueError(f"{text!r} is not a rate; write it like 100/s, 600/m, 5000/h or 20000/d")
    seconds = _SECONDS[found[2] or "s"]
    return Rate(calls, seconds, max(_LEAST_BURST, calls / seconds / 4))


def _checked(text: str) -> str:
    if text:
        parse(text)
    return text


RateText = Annotated[str, AfterValidator(_checked)]
"""A rate, as `parse` reads it, or an empty text."""


class RateSettings(SettingsGroup):
    """Settings of the rate of each caller. A key may have a rate of its own."""

    rate_limit: RateText = ""
    """Rate limit of each caller without a limit of its own, such as `100/s`, `600/m`, `5000/h` or `20000/d`. A call
    beyond the limit gets HTTP 429. With `REDIS_URL`, the limit holds for all replicas together, otherwise for each
    replica. Empty: no limit."""
    rate_burst: float | None = Field(None, ge=1)
    """Number of calls that a caller may make at once (the size of its token bucket). Empty: the calls of a quarter of a
    second, at least 10."""
    rate_concurrent: int = Field(0, ge=0)
    """Maximum number of calls of one caller that run at the same time. A further call gets HTTP 429. An open event
    stream counts as a call that runs. 0: no limit."""

    @property
    def rate(self) -> Rate:
        """Rate limit of callers without a limit of their own."""
        return (parse(self.rate_limit) if self.rate_limit else NO_RATE).replace(self.rate_burst, self.rate_concurrent)
