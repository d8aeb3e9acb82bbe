"""A circuit breaker: a host that failed repeatedly gets no calls for a time, then one call at a time.

The states come from M. Nygard's "Release It!", chapter "Stability Patterns".
"""

import time
from collections.abc import Callable
from typing import Literal

BreakerState = Literal["closed", "open", "half-open"]


class Open(Exception):
    """No call is allowed now. The next call is possible after `seconds`.

    `seconds` is 0 while another call tries the host: the result of that call decides.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class Breaker:
    """A circuit breaker with three states.

    - Closed: all calls pass.
    - Open: no call passes.
    - Half-open: one call passes, and its result closes or opens the circuit.

    The circuit opens for `seconds` after `failures` failed calls in a row. `clock` returns seconds.
    """

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.state: BreakerState = "closed"
        self._most = failures
        self.seconds = seconds
        self._clock = clock
        self.failed = 0
        """Number of failed calls in a row."""
        self._until = 0.0
        self._turn = 0

    def check(self) -> None:
        """Raise `Open` unless a call may be made."""
        if self.state == "half-open":
            raise Open(0)
        if self.state == "open" and (left := self._until - self._clock()) > 0:
            raise Open(left)

    def enter(self) -> int:
        """Start a call, and return the value that `leave` needs. Call `leave` when the call ends, with any result.

        Raises:
            Open: the call is not allowed.
        """
        self.check()
        if self.state == "open":
            self._turn_to("half-open")
        return self._turn

    def leave(self, turn: int, good: bool | None) -> None:
        """Report the result of a call. `good` is None if there is no result, for example because the caller went away.

        `turn` is the value that `enter` returned. The result does not count if the state changed after the call began.
        """
        if turn != self._turn:
            return
        if good:
            self.failed = 0
            if self.state == "half-open":
                self._turn_to("closed")
        elif good is False:
            self.failed += 1
            if self.state == "half-open" or self.failed >= self._most:
                self._until = self._clock() + self.seconds
                self._turn_to("open")
        elif self.state == "half-open":
            self._turn_to("open")  # the time is over already, so the next call tries the host

    def _turn_to(self, state: BreakerState) -> None:
        self.state = state
        self._turn += 1
