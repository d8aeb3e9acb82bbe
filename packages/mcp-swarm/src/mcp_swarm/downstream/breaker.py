"""A circuit breaker: a host that failed repeatedly gets no calls for a while, then one at a time.

The states are those of M. Nygard's "Release It!", chapter "Stability Patterns".
"""

import time
from collections.abc import Callable
from typing import Literal

BreakerState = Literal["closed", "open", "half-open"]


class Open(Exception):
    """No call may be made; one may after `seconds`, which is 0 while one finds out."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class Breaker:
    """Closed: calls pass. Open: none does. Half-open: one passes, and what becomes of it decides.

    After so many `failures` in a row it is open, for so many `seconds`.
    """

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.state: BreakerState = "closed"
        self._most = failures
        self._seconds = seconds
        self._clock = clock
        self._failed = 0
        self._until = 0.0
        self._turn = 0

    def check(self) -> None:
        """Raise `Open` unless a call may be made."""
        if self.state == "half-open":
            raise Open(0)
        if self.state == "open" and (left := self._until - self._clock()) > 0:
            raise Open(left)

    def enter(self) -> int:
        """Make a call; `leave` when it has ended, however that was. Returns what `leave` needs.

        Raises:
            Open: it may not be made.
        """
        self.check()
        if self.state == "open":
            self._turn_to("half-open")
        return self._turn

    def leave(self, turn: int, good: bool | None) -> None:
        """Say what became of a call: `good` is None if it tells nothing, as when its caller went away.

        `turn` is what `enter` gave. What was begun before the state changed says nothing about how things are now.
        """
        if turn != self._turn:
            return
        if good:
            self._failed = 0
            if self.state == "half-open":
                self._turn_to("closed")
        elif good is False:
            self._failed += 1
            if self.state == "half-open" or self._failed >= self._most:
                self._until = self._clock() + self._seconds
                self._turn_to("open")
        elif self.state == "half-open":
            self._turn_to("open")  # the time is over already, so that the next call finds out

    def _turn_to(self, state: BreakerState) -> None:
        self.state = state
        self._turn += 1
