"""The state of each host that tools call."""

import asyncio
import datetime
import email.utils
import logging
import random
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from anyreplica.features.downstream.errors import OUTCOMES, ApiOutcome, Limited
from anyreplica.features.downstream.settings import DownstreamSettings

logger = logging.getLogger(__name__)

BreakerState = Literal["closed", "open", "half-open"]

SHARE = 0.2
"""Number of retries that each call adds to the budget."""

PER_SECOND = 2.0
"""Number of retries that each second adds to the budget, so that a single call may have its retries."""

_MOST = 10.0

_FIRST_PAUSE = 0.1

_LONGEST_PAUSE = 2.0

MOST = 256
"""Maximum number of hosts with a stored state. A tool must limit the hosts that its callers may name."""


class Open(Exception):
    """No call is allowed now. The next call is possible after `seconds`.

    `seconds` is 0 while another call tries the host: the result of that call decides.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class Breaker:
    """A circuit breaker with three states.

    A host that failed repeatedly gets no calls for a time, then one call at a time. The states come from M. Nygard's
    "Release It!", chapter "Stability Patterns".

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


class Budget:
    """The budget of retries. Calls and time fill it, and retries use it. `clock` returns seconds.

    If all calls to a host fail, the reason may be too much load. Unlimited retries would multiply this load.
    """

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

    A pause is random and grows with each attempt ("full jitter" in M. Brooker's "Exponential Backoff And Jitter", AWS
    Architecture Blog), so that callers that failed together do not retry together.

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


class Host:
    """The state of a host. `name` includes the port, unless it is the default port of the scheme.

    The number of calls to a host is limited, and the same number of calls may wait, in their order of arrival. With
    more waiting calls, a slow host could fill the replica (`MAX_IN_FLIGHT`).
    """

    def __init__(self, name: str, settings: DownstreamSettings) -> None:
        self.name = name
        self.breaker = Breaker(settings.downstream_breaker_failures, settings.downstream_breaker_seconds)
        self.budget = Budget()
        self.outcomes: dict[ApiOutcome, int] = dict.fromkeys(OUTCOMES, 0)
        self.retries = 0
        """Number of retries."""
        self.calls = 0
        """Number of calls that run, wait, or pause between two attempts."""
        self.places = settings.downstream_concurrency
        self.running = 0
        self.waiting = 0
        self._free = asyncio.Semaphore(self.places)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Occupy one of the places for calls to the host while the context is open.

        Raises:
            Limited: all places are taken, and the maximum number of calls waits.
        """
        if self._free.locked() and self.waiting >= self.places:
            limit = f"{self.places} calls run (DOWNSTREAM_CONCURRENCY)"
            raise Limited(f"{self.name} is busy: {limit} and {self.places} wait; retry later")
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._free.release()

    def leave(self, turn: int, good: bool | None) -> None:
        """Call `Breaker.leave`, and log a change of its state."""
        before = self.breaker.state
        self.breaker.leave(turn, good)
        if before == "closed" and self.breaker.state == "open":
            text = "Circuit open for %s after %d failures; next attempt in %g s"
            logger.warning(text, self.name, self.breaker.failed, self.breaker.seconds)
        elif before == "half-open" and self.breaker.state == "closed":
            logger.info("Circuit closed for %s: the host answers again", self.name)


class Hosts:
    """The hosts that tools called last."""

    def __init__(self, settings: DownstreamSettings) -> None:
        self.settings = settings
        """The settings of all calls, and of each host whose state is made from now on."""
        self.known: OrderedDict[str, Host] = OrderedDict()

    def of(self, name: str) -> Host:
        """Return the host of a name. At the limit, drop the hosts without calls that were used longest ago."""
        if name not in self.known:
            if len(self.known) >= MOST:
                idle = [old for old, host in self.known.items() if not host.calls]
                for old in idle[: len(self.known) - MOST + 1]:
                    del self.known[old]
            self.known[name] = Host(name, self.settings)
        self.known.move_to_end(name)
        return self.known[name]

    def configure(self, settings: DownstreamSettings) -> None:
        """Drop the state of all hosts, and use these settings."""
        self.settings = settings
        self.known.clear()
