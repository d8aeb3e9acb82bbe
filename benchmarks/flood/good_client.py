"""A good client beside the flood: one session, if there are any, and calls at a fixed rate."""

import asyncio
import time
from dataclasses import dataclass

from mcp_swarm.loadtest.connection import Connection, HttpReply

from benchmarks.expectation import fault
from benchmarks.flood.exchange import connect, send, unwelcome
from benchmarks.flood.messages import INITIALIZE, echo, echoed, initialized
from benchmarks.load import LoadError

_AT_ONCE = 20
"""Calls on their way; the next has to wait, and its latency counts from when it was due."""
_UNKNOWN = 404
"""How a server says that it doesn't know the session."""


@dataclass(frozen=True)
class Call:
    """One call of `echo`."""

    due: float
    """When it was to be sent, by `time.perf_counter`."""
    ms: float
    """From then until the reply."""
    error: str
    """What was wrong; empty if nothing was."""


class GoodClient:
    """It keeps one connection, and makes another only while its calls take longer than from one to the next.

    As the protocol says, it begins anew when its session is unknown.

    Args:
        port: of 127.0.0.1.
        per_second: calls.
        sessions: whether the server must open a session for it.
    """

    def __init__(self, port: int, per_second: float, *, sessions: bool) -> None:
        self.calls: list[Call] = []
        """So far."""
        self._port = port
        self._pause = 1 / per_second
        self._sessions = sessions
        self._free: list[Connection] = []
        self._session: str | None = None
        """None before the handshake; empty where there are no sessions."""
        self._sent = 0
        self._entering = asyncio.Lock()
        self._running = True

    async def enter(self) -> None:
        """Shake hands.

        Raises:
            LoadError: a wrong reply, or none.
        """
        reply = await self._send(INITIALIZE)
        if wrong := unwelcome(reply, sessions=self._sessions):
            raise LoadError(f"the good client: {wrong}")
        await self._send(initialized(reply.session))
        self._session = reply.session

    async def warm_up(self, calls: int) -> None:
        """Call so often, one right after the other.

        Raises:
            LoadError: a wrong reply, or none.
        """
        for _ in range(calls):
            if wrong := await self._call():
                raise LoadError(f"the good client: {wrong}")

    async def keep_calling(self) -> None:
        """Call at the fixed rate until `stop`, and leave."""
        due = time.perf_counter()
        on_their_way: set[asyncio.Future[None]] = set()
        while self._running:
            await asyncio.sleep(due - time.perf_counter())
            if len(on_their_way) >= _AT_ONCE:
                await asyncio.wait(on_their_way, return_when=asyncio.FIRST_COMPLETED)
            call = asyncio.ensure_future(self._note_call(due))
            on_their_way.add(call)
            call.add_done_callback(on_their_way.discard)
            due += self._pause
        await asyncio.gather(*on_their_way)
        for connection in self._free:
            connection.close()

    def stop(self) -> None:
        """Let the next call be the last."""
        self._running = False

    async def _note_call(self, due: float) -> None:
        error = await self._call()
        self.calls.append(Call(due, (time.perf_counter() - due) * 1e3, error))

    async def _call(self) -> str:
        try:
            async with self._entering:
                if self._session is None:
                    await self.enter()
                session = self._session or ""
            self._sent = identity = self._sent + 1
            reply = await self._send(echo(session, identity))
        except LoadError as error:
            return str(error)
        if reply.status == _UNKNOWN and session == self._session:
            self._session = None
        return fault(echoed(identity), b"%d" % reply.status, reply.body)

    async def _send(self, request: bytes) -> HttpReply:
        while self._free:
            if (connection := self._free.pop()).open:
                break
        else:
            connection = await connect(self._port)
        reply = await send(connection, request)
        self._free.append(connection)
        return reply
