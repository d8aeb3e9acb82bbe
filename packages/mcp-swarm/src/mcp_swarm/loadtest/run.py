"""A run: what one process sends, by whom, and when."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from mcp_swarm.loadtest.connection import Connection
from mcp_swarm.loadtest.message import Family
from mcp_swarm.loadtest.pace import Ramp
from mcp_swarm.loadtest.samples import Samples
from mcp_swarm.loadtest.scenario import Scenario
from mcp_swarm.loadtest.target import LoadTarget

_TIMER = 0.002
"""Seconds that the loop's timers may be late. An idle caller's delay of so little is the generator's own, and doesn't
count as latency."""

_SWEEP = 0.05

LoadPolicy = Literal["keepalive", "fresh"] | int
"""How long a caller keeps a connection: for all calls, for one, or for a number of them."""


@dataclass(frozen=True)
class Load:
    """What one process sends."""

    target: LoadTarget
    addresses: list[str]
    scenario: Scenario
    families: tuple[Family, ...]
    """Taken in turns."""
    callers: int
    requests: int | None
    """How many times the scenario is performed; None: until the time is over."""
    seconds: float | None
    """How long; None: until all requests are sent."""
    ramp: Ramp | None
    """The schedule of an open loop; None for a closed one."""
    policy: LoadPolicy
    patience: float
    """Seconds until a request has failed."""


class Working(Protocol):
    """One of the callers."""

    @property
    def connection(self) -> Connection | None:
        """Its connection, if it has one at the moment that somebody has to look after."""

    async def work(self) -> None:
        """Call until there is nothing left to do."""

    def close(self) -> None:
        """Let go of what is open."""


class LoadRun:
    """One process's part of a run, while it goes on and when it is over.

    Args:
        first: the number of the first call; `step` is between one and the next: several processes share the numbers.
    """

    def __init__(self, load: Load, *, first: int = 1, step: int = 1, clock: Callable[[], float] = time.perf_counter):
        self.load = load
        self.samples = Samples()
        self.connects: list[float] = []
        """Seconds that each connection took to be made."""
        self.late: list[float] = []
        """Seconds by which each request of an open loop was sent late by a caller that was free."""
        self.taken = 0
        """How many times the scenario was begun."""
        self.elapsed = 0.0
        """Seconds from the start to the last response."""
        self.numbers = itertools.count(first, step)
        self.connection_numbers = itertools.count(1)
        self.stopping = False
        self._clock = clock
        self._started = 0.0
        self._left = load.requests
        self._due: Iterator[float] | None = load.ramp.schedule() if load.ramp else None
        self._callers: list[Working] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    @property
    def over(self) -> bool:
        """Whether there is nothing left to take."""
        return self._over_at(self.now)

    async def go(self, make: "Callable[[LoadRun], Working]") -> None:
        """Send everything, and wait for the last response.

        Args:
            make: makes a caller.
        """
        self._started = self._clock()
        self._callers = [make(self) for _ in range(self.load.callers)]
        self._tasks = [asyncio.create_task(caller.work()) for caller in self._callers]
        sweep = asyncio.create_task(self._sweep())
        try:
            for result in await asyncio.gather(*self._tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
        finally:
            self.elapsed = self.now
            sweep.cancel()
            for caller in self._callers:
                caller.close()

    def stop(self) -> None:
        """Send nothing more, and wait for nothing more; what is in flight isn't counted."""
        self.stopping = True
        for task in self._tasks:
            task.cancel()

    async def turns(self) -> AsyncIterator[tuple[int, float | None]]:
        """A caller's turns, each when it is to be taken: the number of its call, and when its latency begins.

        None: when the call is sent. Else it was to be sent at that time of the run, and the caller wasn't free.
        """
        while (turn := self.take()) is not None:
            number, due = turn
            if due is not None and (early := due - self.now) > 0:
                await asyncio.sleep(early)
                self.late.append(late := self.now - due)
                due = None if late < _TIMER else due
            yield number, due

    def take(self) -> tuple[int, float | None] | None:
        """The number of the next call, and when it is to be sent (None: now); None when there is none."""
        due = None
        if self._due is not None:
            due = next(self._due, None)
            if due is None:
                return None
        if self._over_at(self.now if due is None else due):
            return None
        if self._left is not None:
            self._left -= 1
        self.taken += 1
        return next(self.numbers), due

    def _over_at(self, moment: float) -> bool:
        seconds = self.load.seconds
        return self.stopping or self._left == 0 or (seconds is not None and moment >= seconds)

    async def _sweep(self) -> None:
        """End what takes too long; one look at all of them costs less than a timer for each."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP)
            late = loop.time() - self.load.patience
            for caller in self._callers:
                connection = caller.connection
                if connection is not None and 0 < connection.since < late:
                    connection.give_up("timeout")
