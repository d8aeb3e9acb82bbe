"""The load: connections that each send the next request as soon as the reply has arrived."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

from benchmarks.reply import UnreadableReply, parse
from benchmarks.sample import Sample
from benchmarks.scenarios import Scenario

_WARM_UP = 0.3


class LoadError(Exception):
    """The load cannot go on; `str()` says why in one line."""


class Load:
    """Connections to a port of 127.0.0.1 that are busy inside the `async with` block.

    In the warm-up the load parses and compares each reply, and a wrong reply ends the load. During a measurement the
    load compares a reply only if its bytes differ from the last right reply, and it counts wrong replies.

    Args:
        patience: Time limit in seconds for a connection, and for the last replies at the end.
    """

    def __init__(self, port: int, scenario: Scenario, connections: int, *, patience: float = 10) -> None:
        self.requests = scenario.request, scenario.other or scenario.request
        self.replies = 0
        self.running = True
        self._port = port
        self._scenario = scenario
        self._wanted = connections
        self._patience = patience
        self._strict = True
        self._known = b""
        self._errors = 0
        self._first_error = ""
        self._nanoseconds: list[int] = []
        self._goal = -1
        self._connections: list[_Connection] = []
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._in_flight = connections
        self._quiet = asyncio.Event()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for _ in range(self._wanted):
            making = loop.create_connection(lambda: _Connection(self), "127.0.0.1", self._port)
            try:
                _, connection = await asyncio.wait_for(making, self._patience)
            except OSError as error:
                raise LoadError(f"no connection to port {self._port}: {error}") from error
            self._connections.append(connection)
        for connection in self._connections:
            connection.send()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the requests in flight, so that the server cancels no call, and close the connections."""
        self.running = False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), self._patience)
        for connection in self._connections:
            connection.close()
        if self._broken.done():
            self._broken.exception()  # The loop would log an exception that nobody reads.

    async def run(self, seconds: float) -> None:
        """Let the load run for some time.

        Raises:
            LoadError: A connection was lost, a reply was unreadable, or a reply in the warm-up was wrong.
        """
        await asyncio.wait([self._broken], timeout=seconds)
        self._raise_if_broken()

    async def run_replies(self, count: int, *, within: float) -> None:
        """Let the load run until `count` further replies have arrived, for at most `within` seconds.

        Raises:
            LoadError: See `run`; or the replies did not arrive in time.
        """
        self._goal = self.replies + count
        self._reached = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._broken, self._reached], timeout=within, return_when=asyncio.FIRST_COMPLETED)
        self._raise_if_broken()
        if self.replies < self._goal:
            raise LoadError(f"{count} replies did not come within {within:g} s")

    async def measure(self, seconds: float, cpu_seconds: Callable[[], float]) -> Sample:
        """Let the load run for some time and return what it measured.

        Args:
            cpu_seconds: Function that reads the CPU time of the server.

        Raises:
            LoadError: See `run`; or no reply arrived.
        """
        self._strict = False
        errors = self._errors
        self._nanoseconds.clear()
        cpu, began = cpu_seconds(), time.perf_counter()
        await self.run(seconds)
        ended, cpu_after = time.perf_counter(), cpu_seconds()
        if not self._nanoseconds:
            raise LoadError(f"no reply within {seconds:g} s")
        return Sample.of(
            self._nanoseconds,
            errors=self._errors - errors,
            first_error=self._first_error,
            seconds=ended - began,
            cpu_seconds=cpu_after - cpu,
        )

    def _raise_if_broken(self) -> None:
        if self._broken.done():
            self._broken.result()

    def broke(self, why: str) -> None:
        """Record why the load cannot go on; the first reason counts."""
        self.running = False
        if not self._broken.done():
            self._broken.set_exception(LoadError(why))

    def rested(self) -> None:
        """Record that a connection has no request in flight and sends no more."""
        self._in_flight -= 1
        if not self._in_flight:
            self._quiet.set()

    def answered(self, status: bytes, body: bytes, nanoseconds: int) -> None:
        """Count a reply and its latency."""
        self.replies += 1
        self._nanoseconds.append(nanoseconds)
        if self._strict or status != b"200" or body != self._known:
            self._check(status, body)
        if self.replies == self._goal:
            self._reached.set_result(None)

    def _check(self, status: bytes, body: bytes) -> None:
        wrong = self._scenario.fault(status, body)
        if not wrong:
            self._known = body
        elif self._strict:
            self.broke(wrong)
        else:
            self._errors += 1
            self._first_error = self._first_error or wrong


class _Connection(asyncio.Protocol):
    """A keep-alive connection with at most one request in flight."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._received = b""
        self._sent = 0
        self._turn = 0
        self._rests = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class does not inherit from this one.

    def send(self) -> None:
        """Send the request, or every second time the scenario's other request."""
        self._turn ^= 1
        request = self._load.requests[self._turn]
        self._sent = time.perf_counter_ns()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received = received = self._received + data if self._received else data
        try:
            reply = parse(received)
        except UnreadableReply as error:
            self._load.broke(str(error))
            self._rest()
            return
        if reply is None:
            return
        self._received = b""
        self._load.answered(reply.status, reply.body, time.perf_counter_ns() - self._sent)
        if self._load.running:
            self.send()
        else:
            self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._load.running:
            self._load.broke(f"the server closed a connection{f': {exc}' if exc else ''}")
        self._rest()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _rest(self) -> None:
        if not self._rests:
            self._rests = True
            self._load.rested()


async def measured(
    port: int, scenario: Scenario, connections: int, seconds: float, cpu_seconds: Callable[[], float]
) -> tuple[Sample, int]:
    """Warm up, measure, and return the sample and the number of replies, including those of the warm-up.

    Raises:
        LoadError: A reply was wrong, or the load could not go on.
    """
    async with Load(port, scenario, connections) as load:
        await load.run(min(_WARM_UP, seconds))
        sample = await load.measure(seconds, cpu_seconds)
    if sample.errors:
        raise LoadError(f"{sample.errors} replies were wrong; the first: {sample.first_error}")
    return sample, load.replies
