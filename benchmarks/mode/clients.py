"""Clients in conversation: over a kept connection each, in a thread, so that this one can see to the replicas."""

import asyncio
import itertools
import random
import threading
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import uvloop
from mcp_swarm.loadtest.connection import Connection, ConnectionEnded, HttpReply
from mcp_swarm.loadtest.message import CLIENT, Family, SentRequest, Writer
from mcp_swarm.loadtest.target import LoadTarget

from benchmarks import interruption
from benchmarks.load import LoadError
from benchmarks.mode.tally import Call, Tally, failure_of

_PATIENCE = 10.0
"""Seconds that a client waits for a reply."""

_WAIT_SECONDS = 30.0

_PAUSE = 0.05
"""Seconds before it goes on when it got no connection or no session."""


class Clients:
    """So many, busy between `with` and its end.

    Each says hello, asks for the tools, and calls one again and again, each call with a text of its own that must come
    back. No call is repeated. Told that its session is not known (404), a client opens a new one before its next call,
    as the protocol asks of it; or it goes on with the one it has, as the official one does.

    Args:
        port: of 127.0.0.1.
        family: their protocol's.
        count: how many.
        tool: what they call.
        calls: after how many a client begins a new conversation.
        rate: calls a second of all of them, each client's at its own times; None: each calls as soon as it can.
        reopens: whether they open new sessions within a conversation.
    """

    def __init__(
        self,
        port: int,
        family: Family,
        count: int,
        tool: str,
        *,
        calls: int,
        rate: float | None = None,
        reopens: bool = False,
    ) -> None:
        self.tally = Tally()
        self.port = port
        self.family = family
        self.tool = tool
        self.calls = calls
        self.reopens = reopens
        self.interval = count / rate if rate else 0.0
        self.running = True
        self.writer = Writer(LoadTarget.of(f"http://127.0.0.1:{port}/mcp"), {})
        self.numbers = itertools.count(1)
        self._count = count
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.running = False
        self._thread.join()
        if self._error and error is None:
            raise LoadError(f"the clients ended: {self._error!r}")

    def calls_ahead(self, each: int) -> int:
        """How many calls will have ended when so many more have as are that many of each client."""
        return len(self.tally.calls) + each * self._count

    def wait_calls(self, goal: int) -> None:
        """Wait until so many calls have ended.

        Raises:
            LoadError: they did not within half a minute.
        """
        late = time.perf_counter() + _WAIT_SECONDS
        while len(self.tally.calls) < goal:
            if time.perf_counter() > late or not self._thread.is_alive():
                raise LoadError(f"calls take for ever: {self.tally.failures.most_common(1)}")
            time.sleep(0.005)

    def _run(self) -> None:
        try:
            uvloop.run(self._converse())
        except Exception as error:  # noqa: BLE001  # told where the thread is joined
            self._error = error

    async def _converse(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._count):
                group.create_task(_Client(self).work())


class _Client:
    """One of them."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._tally = clients.tally
        self._connection: Connection | None = None
        self._session = ""
        self._welcome = False
        self._due = time.perf_counter() + random.random() * clients.interval  # noqa: S311  # guards nothing

    async def work(self) -> None:
        """Hold one conversation after the other."""
        try:
            while self._clients.running:
                self._welcome = False
                await self._hello()
                if self._welcome:
                    await self._exchange(self._request("tools/list"))
                async for _ in self._turns():
                    if not self._welcome:
                        await self._hello()
                    if self._welcome:
                        await self.call()
                    else:
                        self._tally.calls.append(Call(now := time.perf_counter(), now, ""))
        finally:
            self._close()

    async def _turns(self) -> AsyncIterator[None]:
        """When to call."""
        for _ in range(self._clients.calls):
            if self._clients.interval:
                await asyncio.sleep(self._due - time.perf_counter())
                self._due += self._clients.interval
            if not self._clients.running:
                return
            yield

    async def _hello(self) -> None:
        if self._clients.family is Family.MODERN:
            self._welcome = await self._exchange(self._request("server/discover")) is not None
            return
        self._session = ""
        params = {"protocolVersion": Family.LEGACY.value, "capabilities": {}, "clientInfo": CLIENT}
        reply = await self._exchange(self._request("initialize", params))
        if reply is None:
            await asyncio.sleep(_PAUSE)
            return
        self._welcome = True
        self._session = reply.session
        self._tally.sessions_opened += bool(reply.session)
        writer, family = self._clients.writer, self._clients.family
        await self._exchange(writer.request(family, None, "notifications/initialized", session=self._session))

    async def call(self) -> None:
        """Call the tool once, and note what came of it."""
        text = f"call {next(self._clients.numbers)}"
        request = self._request("tools/call", {"name": self._clients.tool, "arguments": {"message": text}}, text)
        begun = time.perf_counter()
        reply = await self._exchange(request)
        self._tally.calls.append(Call(begun, time.perf_counter(), reply.replica if reply else ""))

    def _request(self, method: str, params: dict[str, Any] | None = None, text: str | None = None) -> SentRequest:
        clients = self._clients
        number = next(clients.numbers)
        return clients.writer.request(clients.family, number, method, params, text=text, session=self._session)

    async def _exchange(self, request: SentRequest) -> HttpReply | None:
        """Send a request and count what comes of it; gives the reply if it is right."""
        try:
            async with asyncio.timeout(_PATIENCE):
                connection = self._connection
                if connection is None or not connection.open:
                    connection = self._connection = await self._connect()
                reply = await connection.send(request.payload)
        except (ConnectionEnded, OSError, TimeoutError) as error:
            self._close()
            why = str(error) if isinstance(error, ConnectionEnded) else type(error).__name__
            self._tally.fail(request, f"no reply: {why}", "")
            await asyncio.sleep(_PAUSE)
            return None
        failure = failure_of(request, reply)
        if failure is None:
            return reply
        self._tally.fail(request, *failure)
        if reply.status == 404 and self._session and request.identity is not None:
            self._tally.sessions_lost += self._welcome
            self._welcome = not self._clients.reopens
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, "127.0.0.1", self._clients.port)
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def bare_calls(port: int, count: int) -> Tally:
    """Calls of `echo` without a word before them and without a session, as of a script."""
    clients = Clients(port, Family.LEGACY, 0, "echo", calls=0)

    async def call() -> None:
        client = _Client(clients)
        for _ in range(count):
            await client.call()

    interruption.run(call())
    return clients.tally
