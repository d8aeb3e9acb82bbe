"""A well-behaved client during the flood: one session if the server has sessions, and calls at a fixed rate."""

import asyncio
import time

from anyreplica.load.connection import Connection, ConnectionEnded, HttpReply
from benchmarks.expectation import fault
from benchmarks.load import LoadError
from benchmarks.scenarios import ECHO, MESSAGE
from benchmarks.wire import HELLO, encode

INITIALIZE = encode("initialize", HELLO)
WELCOME = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": HELLO["protocolVersion"]}}
"""Members of the reply to `initialize`."""

_IN_FLIGHT = 20
"""Maximum number of calls in flight. A further call waits, and its latency counts from the time when it was due."""
_PATIENCE = 10.0
"""Time limit for a reply in seconds."""


class GoodClient:
    """A client that calls `echo` at a fixed rate, over one connection, or more while calls are slow."""

    def __init__(self, port: int, *, per_second: float) -> None:
        self.session = ""
        self.milliseconds: list[float] = []
        """Latencies of the calls that were answered, from the time when each call was due."""
        self.errors = 0
        """Number of calls with a wrong reply or no reply."""
        self._port = port
        self._pause = 1 / per_second
        self._running = True
        self._sent = 0
        self._free: list[Connection] = []

    async def enter(self, *, sessions: bool) -> None:
        """Initialize.

        Raises:
            LoadError: The reply was wrong or missing; or it has a session id although `sessions` is False, or none
                although `sessions` is True.
        """
        reply = await self._send(INITIALIZE)
        wrong = fault(WELCOME, b"%d" % reply.status, reply.body)
        if wrong or bool(reply.session) is not sessions:
            self._close()
            raise LoadError(wrong or f"the server opens {'no' if sessions else 'a'} session")
        self.session = reply.session
        await self._send(encode("notifications/initialized", session=self.session, identity=None))

    async def call(self) -> None:
        """Call until `stop`."""
        due = time.perf_counter()
        calls: set[asyncio.Future[None]] = set()
        while self._running:
            await asyncio.sleep(due - time.perf_counter())
            if len(calls) >= _IN_FLIGHT:
                await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            call = asyncio.ensure_future(self._call(due))
            calls.add(call)
            call.add_done_callback(calls.discard)
            due += self._pause
        await asyncio.gather(*calls)
        self._close()

    def stop(self) -> None:
        """Start no more calls."""
        self._running = False

    def _close(self) -> None:
        for connection in self._free:
            connection.close()

    async def _call(self, due: float) -> None:
        self._sent = identity = self._sent + 1  # Two calls in flight in one session must not have the same id.
        params = {"name": "echo", "arguments": {"message": MESSAGE}}
        try:
            reply = await self._send(encode("tools/call", params, session=self.session, identity=identity))
            wrong = fault(ECHO.expected | {"id": identity}, b"%d" % reply.status, reply.body)
        except LoadError as error:
            wrong = str(error)
        if wrong:
            self.errors += 1
        else:
            self.milliseconds.append(1000 * (time.perf_counter() - due))

    async def _send(self, request: bytes) -> HttpReply:
        try:
            async with asyncio.timeout(_PATIENCE):
                while self._free:
                    if (connection := self._free.pop()).open:
                        break
                else:
                    loop = asyncio.get_running_loop()
                    _, connection = await loop.create_connection(Connection, "127.0.0.1", self._port)
                reply = await connection.send(request)
        except (ConnectionEnded, OSError) as error:  # TimeoutError is an OSError.
            raise LoadError(f"no reply: {str(error) or 'time limit exceeded'}") from error
        self._free.append(connection)
        return reply
