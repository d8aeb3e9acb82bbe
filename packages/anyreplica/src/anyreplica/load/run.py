"""A run: the schedule of its requests, the clients of one process, their turns and their results.

An open loop has a schedule, and sends requests at a given rate. A closed loop has none: each client sends its next
request as soon as it has the reply to the last one.
"""

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from anyreplica.load.connection import Connection
from anyreplica.load.latency import Samples
from anyreplica.load.message import Family, LoadTarget
from anyreplica.load.scenario import Scenario

_TIMER = 0.002
"""Tolerance for the event loop's timers, in seconds.

A client is free if it waits for no reply. A free client may send a request a little late, because the load test's own
timer is late. A delay below this tolerance does not count as latency.
"""

_SWEEP = 0.05
"""Seconds between two checks for requests that exceed the time limit."""

LoadPolicy = Literal["keepalive", "fresh"] | int
"""How long a client keeps a connection: for all requests, for one request, or for a number of requests."""


@dataclass(frozen=True)
class Ramp:
    """A rate that changes steadily from `first` to `last`, then stays; constant if both are equal."""

    first: float
    """Requests per second at the start."""
    last: float
    """Requests per second from `seconds` on."""
    seconds: float
    """Length of the change, in seconds."""

    def rate(self, at: float) -> float:
        """Return the requests per second at a time, in seconds since the start."""
        if at >= self.seconds:
            return self.last
        return self.first + (self.last - self.first) * at / self.seconds

    def sent(self, until: float) -> float:
        """Return how many requests are due until a time, in seconds since the start."""
        ramped = min(until, self.seconds)
        within = self.first * ramped + (self.rate(ramped) - self.first) * ramped / 2
        return within + self.last * max(0.0, until - self.seconds)

    def schedule(self) -> Iterator[float]:
        """Yield the scheduled times of the requests, in seconds since the start; the first is 0.

        The iterator is endless, except if the rate falls to 0.
        """
        slope = (self.last - self.first) / self.seconds if self.seconds else 0.0
        ramped = self.sent(self.seconds)
        number = 0
        while True:
            if number < ramped:
                yield _reached(number, self.first, slope)
            elif self.last > 0:
                yield self.seconds + (number - ramped) / self.last
            else:
                return
            number += 1


def _reached(number: float, rate: float, slope: float) -> float:
    """Return the time t when `number` requests are due: rate·t + slope·t²/2 = number.

    The rate changes by `slope` each second. The function uses the form of the quadratic formula that stays exact when
    the slope is close to 0.
    """
    root = math.sqrt(max(0.0, rate * rate + 2 * slope * number))
    return 2 * number / (rate + root) if number else 0.0


def constant(rate: float) -> Ramp:
    """Return a ramp with a constant rate."""
    return Ramp(rate, rate, 0.0)


@dataclass(frozen=True)
class Load:
    """The load that one process generates."""

    target: LoadTarget
    addresses: list[str]
    scenario: Scenario
    families: tuple[Family, ...]
    """Protocol families; the requests alternate between them."""
    clients: int
    """Number of parallel clients."""
    requests: int | None
    """How many times the clients perform the scenario; None: until the time is over."""
    seconds: float | None
    """Time limit of the run, in seconds; None: until all requests are sent."""
    ramp: Ramp | None
    """The schedule of an open loop; None for a closed one."""
    policy: LoadPolicy
    patience: float
    """Time limit for one request, in seconds."""


class Working(Protocol):
    """A client of a run."""

    @property
    def connection(self) -> Connection | None:
        """The connection that the run must watch for timeouts; None if there is none."""

    async def work(self) -> None:
        """Send requests until the run is over."""

    def close(self) -> None:
        """Close the open connection."""


class LoadRun:
    """The part of a run that one process performs, and its results.

    Args:
        load: The load to generate.
        first: Number of the first request.
        step: Difference between the numbers of two successive requests. With the number of processes as `step`, each
            number occurs in one process only.
        clock: Returns the time in seconds.
    """

    def __init__(self, load: Load, *, first: int = 1, step: int = 1, clock: Callable[[], float] = time.perf_counter):
        self.load = load
        self.samples = Samples()
        self.connects: list[float] = []
        """Seconds that each new connection took."""
        self.late: list[float] = []
        """In an open loop: the delays of requests of free clients (without a request in flight), in seconds."""
        self.taken = 0
        """How many times clients began the scenario."""
        self.elapsed = 0.0
        """Seconds from the start to the last response."""
        self.numbers = itertools.count(first, step)
        self.connection_numbers = itertools.count(1)
        self.stopping = False
        self._clock = clock
        self._started = 0.0
        self._left = load.requests
        self._due: Iterator[float] | None = load.ramp.schedule() if load.ramp else None
        self._clients: list[Working] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    @property
    def over(self) -> bool:
        """Whether clients must not begin another request."""
        return self._over_at(self.now)

    async def go(self, make: "Callable[[LoadRun], Working]") -> None:
        """Send all requests and wait for the last response.

        Args:
            make: Creates a client.
        """
        self._started = self._clock()
        self._clients = [make(self) for _ in range(self.load.clients)]
        self._tasks = [asyncio.create_task(client.work()) for client in self._clients]
        sweep = asyncio.create_task(self._sweep())
        try:
            for result in await asyncio.gather(*self._tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
        finally:
            self.elapsed = self.now
            sweep.cancel()
            for client in self._clients:
                client.close()

    def stop(self) -> None:
        """Stop the run at once; requests in flight are not counted."""
        self.stopping = True
        for task in self._tasks:
            task.cancel()

    async def turns(self) -> AsyncIterator[tuple[int, float | None]]:
        """Yield the turns of a client: the number of the next request, and its scheduled time if the request is late.

        The scheduled time is in seconds since the start of the run. The latency of a late request counts from this
        time. For a request that is not late the time is None: its latency counts from the moment of sending.
        """
        while (turn := self.next_request()) is not None:
            number, due = turn
            if due is not None and (early := due - self.now) > 0:
                await asyncio.sleep(early)
                self.late.append(late := self.now - due)
                due = None if late < _TIMER else due
            yield number, due

    def next_request(self) -> tuple[int, float | None] | None:
        """Return the number of the next request and its scheduled time (None: now); None if the run is over."""
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
        """End requests that exceed the time limit; one check of all clients costs less than a timer per request."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP)
            late = loop.time() - self.load.patience
            for client in self._clients:
                connection = client.connection
                if connection is not None and 0 < connection.since < late:
                    connection.abandon("timeout")
