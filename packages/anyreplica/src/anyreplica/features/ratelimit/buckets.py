"""Token buckets in the memory of this process."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from anyreplica.settings.rate import Rate

_MOST = 10_000
"""Maximum number of callers with a bucket. Full buckets are dropped first, because a new bucket is full, too."""

_ROUNDING = 1e-9
"""Number of tokens that a bucket may lack for a call. After the wait that a refusal names, rounding can leave it a
little below the cost."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a call. A refusal also has the number of tokens that remain."""

    granted: bool
    remaining: float = 0
    wait: float = 0
    """Seconds until the caller may retry. 0: the reason of the refusal is the number of calls in flight."""


GRANTED = Verdict(granted=True)


class Buckets:
    """The bucket and the number of calls in flight of each caller. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.running: dict[str, int] = {}
        """Number of calls in flight by caller, without callers that have none."""
        self._clock = clock
        self._buckets: dict[str, tuple[float, float, Rate]] = {}

    def take(self, name: str, rate: Rate, cost: float) -> Verdict:
        """Take `cost` tokens from a caller's bucket if it has enough, and count the granted call as in flight.

        A cost above the size of the bucket counts as the size of the bucket.
        """
        if rate.concurrent and self.running.get(name, 0) >= rate.concurrent:
            return Verdict(granted=False)
        verdict = self._spend(name, rate, cost) if rate.calls else GRANTED
        if rate.concurrent and verdict.granted:
            self.acquire_slot(name)
        return verdict

    def acquire_slot(self, name: str) -> None:
        """Increase the number of calls in flight by one."""
        self.running[name] = self.running.get(name, 0) + 1

    def release(self, name: str) -> None:
        """Decrease the number of calls in flight by one."""
        self.running[name] -= 1
        if not self.running[name]:
            del self.running[name]

    def _spend(self, name: str, rate: Rate, cost: float) -> Verdict:
        now = self._clock()
        per_second, burst = rate.calls / rate.seconds, rate.burst
        known = self._buckets.get(name)
        tokens = burst if known is None else min(burst, known[0] + (now - known[1]) * per_second)
        cost = min(cost, burst)
        if tokens < cost - _ROUNDING:
            return Verdict(granted=False, remaining=tokens, wait=(cost - tokens) / per_second)
        if known is None and len(self._buckets) >= _MOST:
            self._forget(now)
        self._buckets[name] = max(0.0, tokens - cost), now, rate
        return GRANTED

    def _forget(self, now: float) -> None:
        full = [
            name
            for name, (tokens, at, rate) in self._buckets.items()
            if tokens + (now - at) * rate.per_second >= rate.burst
        ]
        for name in full or list(self._buckets)[: _MOST // 10]:
            del self._buckets[name]
