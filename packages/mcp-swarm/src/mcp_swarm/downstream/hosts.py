"""What is known of each host that is called."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp_swarm.downstream.breaker import Breaker
from mcp_swarm.downstream.errors import OUTCOMES, ApiOutcome, Limited
from mcp_swarm.downstream.retries import Budget
from mcp_swarm.settings.downstream import DownstreamSettings

logger = logging.getLogger(__name__)

MOST = 256
"""Hosts that are remembered; which one a caller may name is a tool's to bound."""


class Host:
    """One of them; `name` has its port, unless that is the scheme's own.

    It has places for calls, and as many to wait for one, first come, first served. More that wait would fill the
    replica (`MAX_IN_FLIGHT`) with calls of a host that is slow.
    """

    def __init__(self, name: str, settings: DownstreamSettings) -> None:
        self.name = name
        self.breaker = Breaker(settings.downstream_breaker_failures, settings.downstream_breaker_seconds)
        self.budget = Budget()
        self.outcomes: dict[ApiOutcome, int] = dict.fromkeys(OUTCOMES, 0)
        self.retries = 0
        """Tries beyond the first of each call."""
        self.calls = 0
        """That are under way, whether they run, wait, or pause between two tries."""
        self.places = settings.downstream_concurrency
        self.running = 0
        self.waiting = 0
        self._free = asyncio.Semaphore(self.places)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Have a place within the block.

        Raises:
            Limited: none is free, nor one to wait at.
        """
        if self._free.locked() and self.waiting >= self.places:
            raise Limited(f"{self.name} is busy: {self.places} calls to it run, and as many wait")
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
        """As `Breaker.leave`, and log what changes."""
        before = self.breaker.state
        self.breaker.leave(turn, good)
        if before == "closed" and self.breaker.state == "open":
            logger.warning("%s failed repeatedly: circuit open; one call at a time tries it again", self.name)
        elif before == "half-open" and self.breaker.state == "closed":
            logger.info("%s is back", self.name)


class Hosts:
    """Those that were called last."""

    def __init__(self, settings: DownstreamSettings) -> None:
        self.settings = settings
        """Of hosts that are called for the first time from now on."""
        self.known: OrderedDict[str, Host] = OrderedDict()

    def of(self, name: str) -> Host:
        """A host by its name. Those that were called longest ago are forgotten, but none that is being called."""
        if name not in self.known:
            if len(self.known) >= MOST:
                idle = [old for old, host in self.known.items() if not host.calls]
                for old in idle[: len(self.known) - MOST + 1]:
                    del self.known[old]
            self.known[name] = Host(name, self.settings)
        self.known.move_to_end(name)
        return self.known[name]

    def configure(self, settings: DownstreamSettings) -> None:
        """Forget all hosts, and go by these settings."""
        self.settings = settings
        self.known.clear()
