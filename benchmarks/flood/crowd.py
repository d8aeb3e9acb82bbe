"""The flood: clients that say `initialize`, and never close what is opened for them."""

import asyncio
from collections import deque

from mcp_swarm.loadtest.connection import Connection, HttpReply

from benchmarks.flood.exchange import REFUSED, connect, send, unwelcome
from benchmarks.flood.messages import INITIALIZE
from benchmarks.load import LoadError


class Crowd:
    """Clients one after the other, a few at once, as fast as they are answered.

    Args:
        port: of 127.0.0.1.
        sessions: whether a reply must open a session; else it must not.
        own_connections: whether each client makes a connection and keeps it open as long as the server does.
        at_once: clients who wait for their reply at any time.
    """

    def __init__(self, port: int, *, sessions: bool, own_connections: bool, at_once: int) -> None:
        self.let_in = 0
        """Clients so far."""
        self.refused = 0
        """Clients so far who got a 503."""
        self.wrong = 0
        """Clients so far who got something else, or nothing."""
        self.first_wrong = ""
        self._port = port
        self._sessions = sessions
        self._own_connections = own_connections
        self._at_once = at_once
        self._known = b""
        self._kept: deque[Connection] = deque()
        self._running = True

    async def run(self) -> None:
        """Let them come until `stop`, and wait for the last replies.

        Raises:
            LoadError: no connection could be made.
        """
        places = [asyncio.ensure_future(self._place()) for _ in range(self._at_once)]
        try:
            await asyncio.gather(*places)
        finally:
            for place in places:
                place.cancel()
            await asyncio.gather(*places, return_exceptions=True)

    def stop(self) -> None:
        """Let no more come."""
        self._running = False

    def leave(self) -> None:
        """Close their connections, which they themselves wouldn't."""
        for connection in self._kept:
            connection.close()

    async def _place(self) -> None:
        connection: Connection | None = None
        while self._running:
            if connection is None or self._own_connections or not connection.open:
                connection = await connect(self._port)
                self._keep(connection)
            await self._one(connection)

    async def _one(self, connection: Connection) -> None:
        try:
            reply = await send(connection, INITIALIZE)
        except LoadError as error:
            self._is_wrong(str(error))
            return
        if reply.status == REFUSED:
            self.refused += 1
        elif why := self._fault(reply):
            self._is_wrong(why)
        else:
            self.let_in += 1

    def _keep(self, connection: Connection) -> None:
        """The server ends the connection that has been idle for longest: those that are gone are the first."""
        while self._kept and not self._kept[0].open:
            self._kept.popleft()
        self._kept.append(connection)

    def _fault(self, reply: HttpReply) -> str:
        if reply.status == 200 and reply.body == self._known and bool(reply.session) is self._sessions:
            return ""
        wrong = unwelcome(reply, sessions=self._sessions)
        if not wrong:
            self._known = reply.body
        return wrong

    def _is_wrong(self, why: str) -> None:
        self.wrong += 1
        self.first_wrong = self.first_wrong or why
