"""The state of each host that tools call."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyreplica.features.downstream.breaker import Breaker
from anyreplica.features.downstream.errors import OUTCOMES, ApiOutcome, Limited
from anyreplica.features.downstream.retries import Budget
from anyreplica.settings.downstream import DownstreamSettings

logger = logging.getLogger(__name__)

MOST = 256
"""Maximum number of hosts with a stored state. A tool must limit the hosts that its callers may name."""


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
