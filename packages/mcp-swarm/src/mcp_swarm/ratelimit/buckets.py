"""Token buckets in this process."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from mcp_swarm.settings.rate import Rate

_MOST = 10_000
"""Callers that are remembered; those whose buckets are full again are forgotten first, which changes nothing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call may go on, and how many tokens are left if not."""

    granted: bool
    remaining: float = 0
    wait: float = 0
    """Seconds after which it may be tried again; 0 if it was refused for the calls that run."""


GRANTED = Verdict(granted=True)


class Buckets:
    """A bucket for each caller, and how many of its calls run here. `clock` tells seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.running: dict[str, int] = {}
        """By caller; none that is 0."""
        self._clock = clock
        self._buckets: dict[str, tuple[float, float, Rate]] = {}

    def take(self, name: str, rate: Rate, cost: float) -> Verdict:
        """Take `cost` tokens out of a caller's bucket, if there are as many; a call that is granted runs then.

        More tokens than a bucket holds count as all of it.
        """
        if rate.concurrent and self.running.get(name, 0) >= rate.concurrent:
            return Verdict(granted=False)
        verdict = self._spend(name, rate, cost) if rate.calls else GRANTED
        if rate.concurrent and verdict.granted:
            self.enter(name)
        return verdict

    def enter(self, name: str) -> None:
        """Count one more call that runs."""
        self.running[name] = self.running.get(name, 0) + 1

    def leave(self, name: str) -> None:
        """Count one less."""
        self.running[name] -= 1
        if not self.running[name]:
            del self.running[name]

    def _spend(self, name: str, rate: Rate, cost: float) -> Verdict:
        now = self._clock()
        per_second, burst = rate.calls / rate.seconds, rate.burst
        known = self._buckets.get(name)
        tokens = burst if known is None else min(burst, known[0] + (now - known[1]) * per_second)
        cost = min(cost, burst)
        if tokens < cost:
            return Verdict(granted=False, remaining=tokens, wait=(cost - tokens) / per_second)
        if known is None and len(self._buckets) >= _MOST:
            self._forget(now)
        self._buckets[name] = tokens - cost, now, rate
        return GRANTED

    def _forget(self, now: float) -> None:
        full = [
            name
            for name, (tokens, at, rate) in self._buckets.items()
            if tokens + (now - at) * rate.per_second >= rate.burst
        ]
        for name in full or list(self._buckets)[: _MOST // 10]:
            del self._buckets[name]
