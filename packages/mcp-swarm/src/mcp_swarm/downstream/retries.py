"""How many retries there may be, and when: where everything fails, they would multiply the load that may be the cause.

A pause is random and grows with each try ("full jitter" in M. Brooker's "Exponential Backoff And Jitter", AWS
Architecture Blog), so that callers who failed together don't come back together.
"""

import datetime
import email.utils
import random
import time
from collections.abc import Callable

SHARE = 0.2
"""Retries for each call."""

PER_SECOND = 2.0
"""Retries that there may be anyway, so that a call now and then has its own."""

_MOST = 10.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0


class Budget:
    """Fills by calls and by time (`clock`, in seconds), and is spent by retries."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = _MOST
        self._at = clock()

    def earn(self) -> None:
        """Count a call."""
        self._left = min(_MOST, self._left + SHARE)

    def spend(self) -> bool:
        """Take what a retry costs; whether there was as much."""
        now = self._clock()
        self._left, self._at = min(_MOST, self._left + (now - self._at) * PER_SECOND), now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def pause(tried: int, retry_after: str = "") -> float:
    """Seconds until the next try after `tried`, 1 or more; on top of the host's `Retry-After` (RFC 9110, 10.2.3)."""
    jitter = random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (tried - 1)))  # noqa: S311
    return _asked(retry_after) + jitter


def _asked(retry_after: str) -> float:
    if retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after)
    try:
        at = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    if at.tzinfo is None:  # "-0000", which is UTC
        at = at.replace(tzinfo=datetime.UTC)
    return max(0.0, (at - datetime.datetime.now(datetime.UTC)).total_seconds())
