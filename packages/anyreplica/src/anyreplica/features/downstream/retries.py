"""The limit for the number of retries, and the pauses between attempts.

If all calls to a host fail, the reason may be too much load. Unlimited retries would multiply this load.

A pause is random and grows with each attempt ("full jitter" in M. Brooker's "Exponential Backoff And Jitter", AWS
Architecture Blog), so that callers that failed together do not retry together.
"""

import datetime
import email.utils
import random
import time
from collections.abc import Callable

SHARE = 0.2
"""Number of retries that each call adds to the budget."""

PER_SECOND = 2.0
"""Number of retries that each second adds to the budget, so that a single call may have its retries."""

_MOST = 10.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0


class Budget:
    """The budget of retries. Calls and time fill it, and retries use it. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = _MOST
        self._at = clock()

    def earn(self) -> None:
        """Add the share of a call to the budget."""
        self._left = min(_MOST, self._left + SHARE)

    def spend(self) -> bool:
        """Take one retry from the budget. Return whether the budget had one."""
        now = self._clock()
        self._left, self._at = min(_MOST, self._left + (now - self._at) * PER_SECOND), now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def pause(tried: int, retry_after: str = "") -> float:
    """Return the seconds until the next attempt after `tried` attempts (1 or more).

    If the host sent a `Retry-After` header (RFC 9110, section 10.2.3), its time is added to the pause.
    """
    jitter = random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (tried - 1)))  # noqa: S311
    return _asked(retry_after) + jitter


def _asked(retry_after: str) -> float:
    if retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after)
    try:
        at = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    if at.tzinfo is None:  # the time zone "-0000" means UTC
        at = at.replace(tzinfo=datetime.UTC)
    return max(0.0, (at - datetime.datetime.now(datetime.UTC)).total_seconds())
