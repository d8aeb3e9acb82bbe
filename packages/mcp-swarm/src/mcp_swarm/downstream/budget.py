"""How many retries there may be: where everything fails, retries would multiply the load that may be the cause."""

import time
from collections.abc import Callable

SHARE = 0.2
"""Retries for each call."""

PER_SECOND = 2.0
"""Retries that there may be anyway, so that a call now and then has its own."""

_MOST = 10.0


class Budget:
    """Fills by calls and by time, and is spent by retries.

    Args:
        clock: seconds.
    """

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
