"""The load itself: callers that each have a connection of their own and do one thing after the other."""

import asyncio
import itertools
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from loadtest.connection import Connection, ConnectionEnded, Reply
from loadtest.judge import judge
from loadtest.message import Era, Request
from loadtest.pace import Ramp
from loadtest.samples import Samples
from loadtest.scenario import Scenario
from loadtest.target import Target

_TIMER = 0.002
"""Seconds that the loop's timers may be late. An idle caller's delay of so little is the generator's own, and doesn't
count as latency."""

_REFUSED_PAUSE = 0.1
"""Seconds that a caller waits after a refused connection: without it, a server's restart would count as a million."""

_SWEEP = 0.05

Policy = Literal["keepalive", "fresh"] | int
"""How long a caller keeps a connection: for all calls, for one, or for a number of them."""


@dataclass(frozen=True)
class Load:
    """What one process sends."""

    target: Target
    addresses: list[str]
    scenario: Scenario
    eras: tuple[Era, ...]
    """Taken in turns."""
    callers: int
    requests: int | None
    """How many times the scenario is performed; None: until the time is over."""
    seconds: float | None
    """How long; None: until all requests are sent."""
    ramp: Ramp | None
    """The schedule of an open loop; None for a closed one."""
    policy: Policy
    patience: float
    """Seconds until a request has failed."""


class Run:
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
        self._callers: list[Caller] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    async def go(self) -> None:
        """Send everything, and wait for the last response."""
        self._started = self._clock()
        self._callers = [Caller(self) for _ in range(self.load.callers)]
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

    def take(self) -> tuple[int, float | None] | None:
        """The number of the next call, and when it is to be sent (None: now); None when there is none."""
        if self.stopping or self._left == 0:
            return None
        due = None
        if self._due is not None:
            due = next(self._due, None)
            if due is None:
                return None
        seconds = self.load.seconds
        if seconds is not None and (self.now if due is None else due) >= seconds:
            return None
        if self._left is not None:
            self._left -= 1
        self.taken += 1
        return next(self.numbers), due

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


class Caller:
    """One of the callers."""

    def __init__(self, run: Run) -> None:
        self.connection: Connection | None = None
        self._run = run
        self._number = 0
        self._due: float | None = None

    async def work(self) -> None:
        """Call until there is nothing left to do."""
        run = self._run
        perform = run.load.scenario.perform
        while (turn := run.take()) is not None:
            number, due = turn
            if due is not None and (early := due - run.now) > 0:
                await asyncio.sleep(early)
                run.late.append(late := run.now - due)
                due = None if late < _TIMER else due
            self._due = due
            await perform(number, run.load.eras[number % len(run.load.eras)], self.exchange)

    async def exchange(self, request: Request) -> Reply | None:
        """Send a request and note what comes of it."""
        run, due = self._run, self._due
        self._due = None
        begun = run.now if due is None else due
        connection = self.connection
        if connection is None or not connection.open:
            try:
                connection = await self._connect()
            except (OSError, TimeoutError) as error:
                self._note(begun, request, _why(error), str(error), "")
                await asyncio.sleep(_REFUSED_PAUSE)
                return None
        try:
            reply = await connection.send(request.payload)
        except ConnectionEnded as error:
            self._note(begun, request, str(error), "", "")
            return None
        failure = judge(request, reply)
        if failure is None:
            run.samples.add(begun, run.now, "", reply.replica, request.name, self._number)
        else:
            self._note(begun, request, *failure, reply.replica)
        policy = run.load.policy
        if policy != "keepalive" and (policy == "fresh" or connection.requests >= policy):
            self.close()
        return None if failure else reply

    def close(self) -> None:
        """Give the connection up."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _note(self, begun: float, request: Request, kind: str, example: str, replica: str) -> None:
        run = self._run
        run.samples.examples.setdefault(kind, example)
        run.samples.add(begun, run.now, kind, replica, request.name, self._number)

    async def _connect(self) -> Connection:
        run, target = self._run, self._run.load.target
        self.connection = None
        self._number = 0
        begun = run.now
        number = next(run.connection_numbers)
        address = run.load.addresses[number % len(run.load.addresses)]
        loop = asyncio.get_running_loop()
        name = target.host if target.tls else None
        async with asyncio.timeout(run.load.patience):
            _, connection = await loop.create_connection(
                Connection, address, target.port, ssl=target.tls, server_hostname=name
            )
        run.connects.append(run.now - begun)
        self.connection, self._number = connection, number
        return connection


def _why(error: OSError) -> str:
    """The kind of failure that a connection's making ended with."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError):
        return "connection reset"
    if isinstance(error, TimeoutError):
        return "connect timeout"
    if isinstance(error, ssl.SSLError):
        return "TLS error"
    return "connection failed"
