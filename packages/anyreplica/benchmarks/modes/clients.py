"""Clients in conversation, in a thread of their own, so that the main thread can stop and start replicas."""

import asyncio
import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Self

import uvloop

from anyreplica.load.client import judge
from anyreplica.load.connection import Connection, ConnectionEnded, HttpReply
from anyreplica.load.message import CLIENT, Family, LoadTarget, SentRequest, Writer
from benchmarks.load import LoadError

_PATIENCE = 10.0
"""Time limit of a client for a reply in seconds."""
_WAIT_SECONDS = 30.0
_PAUSE = 0.05
"""Seconds that a client waits after a request without a reply."""


class Call(NamedTuple):
    """A call of a tool, with times by `time.perf_counter`."""

    begun: float
    ended: float
    replica: str
    """Replica that gave the right reply; empty if the call was lost."""


class Clients:
    """Clients that are busy inside the `with` block, each over one kept connection.

    Each client initializes, lists the tools, and calls a tool again and again, each time with another text that must
    come back. No call is repeated. A client whose session is unknown (404) opens a new session before its next call if
    `reopens` is true, as the protocol demands; otherwise it continues with its old session, like the official client.

    Args:
        port: Port of 127.0.0.1.
        calls: Number of calls of a conversation.
        rate: Calls per second of all clients together; 0: each client calls as fast as possible.
    """

    def __init__(
        self, port: int, family: Family, count: int, tool: str, *, calls: int, rate: float = 0, reopens: bool = False
    ) -> None:
        self.calls: list[Call] = []
        self.sessions_lost = 0
        self.port = port
        self.family = family
        self.tool = tool
        self.conversation = calls
        self.reopens = reopens
        self.interval = count / rate if rate else 0.0
        self.stopped = threading.Event()
        self.writer = Writer(LoadTarget.of(f"http://127.0.0.1:{port}/mcp"), {})
        self.numbers = itertools.count(1)
        self._count = count
        self._thread = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> Self:
        self._work = self._thread.submit(lambda: uvloop.run(self._converse()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._thread.shutdown()

    @property
    def calls_lost(self) -> int:
        """Number of calls without the right reply."""
        return sum(not call.replica for call in self.calls)

    def wait_calls(self, each: int) -> None:
        """Wait until a number of further calls per client has ended.

        Raises:
            LoadError: The calls did not end within half a minute.
        """
        goal, late = len(self.calls) + each * self._count, time.perf_counter() + _WAIT_SECONDS
        while len(self.calls) < goal:
            if time.perf_counter() > late or self._work.done():
                why = repr(self._work.exception()) if self._work.done() else f"not within {_WAIT_SECONDS:g} s"
                raise LoadError(f"{goal} calls did not end: {why}")
            time.sleep(0.005)

    async def _converse(self) -> None:
        await asyncio.gather(*(_Client(self).work() for _ in range(self._count)))


class _Client:
    """One client."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._connection: Connection | None = None
        self._session = ""
        self._initialized = False
        self._due = time.perf_counter() + random.random() * clients.interval  # noqa: S311  # No secret depends on it.

    async def work(self) -> None:
        """Have one conversation after the other."""
        clients = self._clients
        while not clients.stopped.is_set():
            await self._initialize()
            if self._initialized:
                await self._exchange("tools/list")
            for _ in range(clients.conversation):
                if clients.interval:
                    await asyncio.sleep(self._due - time.perf_counter())
                    self._due += clients.interval
                if clients.stopped.is_set():
                    break
                if not self._initialized:
                    await self._initialize()
                await self._call()
        self._close()

    async def _initialize(self) -> None:
        self._session = ""
        if self._clients.family is Family.MODERN:
            self._initialized = await self._exchange("server/discover") is not None
            return
        params = {"protocolVersion": Family.LEGACY.value, "capabilities": {}, "clientInfo": CLIENT}
        reply = await self._exchange("initialize", params)
        self._initialized = reply is not None
        if reply is None:
            await asyncio.sleep(_PAUSE)
            return
        self._session = reply.session
        family = self._clients.family
        await self._send(self._clients.writer.request(family, None, "notifications/initialized", session=self._session))

    async def _call(self) -> None:
        text = f"call {next(self._clients.numbers)}"
        begun = time.perf_counter()
        reply = None
        if self._initialized:
            reply = await self._exchange(
                "tools/call", {"name": self._clients.tool, "arguments": {"message": text}}, text
            )
        self._clients.calls.append(Call(begun, time.perf_counter(), reply.replica if reply else ""))

    async def _exchange(
        self, method: str, params: dict[str, Any] | None = None, text: str | None = None
    ) -> HttpReply | None:
        """Send a request and return the reply, or None if the reply is wrong."""
        clients = self._clients
        number = next(clients.numbers)
        request = clients.writer.request(clients.family, number, method, params, text=text, session=self._session)
        reply = await self._send(request)
        if reply is None or judge(request, reply) is None:
            return reply
        if reply.status == 404 and self._session:
            clients.sessions_lost += self._initialized
            self._initialized = not clients.reopens
        return None

    async def _send(self, request: SentRequest) -> HttpReply | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                if self._connection is None or not self._connection.open:
                    loop = asyncio.get_running_loop()
                    _, self._connection = await loop.create_connection(Connection, "127.0.0.1", self._clients.port)
                return await self._connection.send(request.payload)
        except (ConnectionEnded, OSError):  # TimeoutError is an OSError.
            self._close()
            await asyncio.sleep(_PAUSE)
            return None

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
