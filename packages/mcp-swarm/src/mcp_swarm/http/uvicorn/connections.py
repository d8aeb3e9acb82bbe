"""All connections of a replica: how many there may be, which one makes room for a new one, and their unsent bytes."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_swarm.http.uvicorn.limits import Limits

if TYPE_CHECKING:
    from mcp_swarm.http.uvicorn.protocol import HttpProtocol

KEY = "server.connections"
"""Key of the lifespan's state under which the protocol finds the connections."""

_SWEEP_SECONDS = 1.0

_LEAVING = 128
"""Connections beyond the limit that may be open for a moment, to be told why they are closed."""


def _unseen(requests: int) -> None:
    """Ignore it."""


class Connections:
    """The open connections, looked at once a second instead of by a timer for each request.

    Args:
        limits: what they are held to.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.draining = False
        """Whether each response is to be its connection's last."""
        self.opened = 0
        """How many connections there have been."""
        self.closed: Callable[[int], None] = _unseen
        """Called when a connection has ended, with the number of requests that it carried."""
        self._open: set[HttpProtocol] = set()
        self._unsent: set[HttpProtocol] = set()
        """Those whose clients read too slowly."""
        self._sweeping = False

    def drain(self) -> None:
        """Let each connection end with its next response."""
        self.draining = True

    def add(self, connection: "HttpProtocol", loop: asyncio.AbstractEventLoop) -> None:
        """Take a new connection, or refuse it if none of the others can make room for it."""
        self.opened += 1
        self._open.add(connection)
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop)
        if len(self._open) <= self.limits.connections:
            return
        staying = [each for each in self._open if not each.is_leaving]
        if len(staying) > self.limits.connections and not self._make_room(connection, loop.time()):
            if len(self._open) > self.limits.connections + _LEAVING:
                connection.cut()
            else:
                connection.refuse_for_want_of_room()

    def remove(self, connection: "HttpProtocol", requests: int) -> None:
        """Forget a connection that has ended.

        Args:
            requests: how many it carried.
        """
        self._open.discard(connection)
        self._unsent.discard(connection)
        self.closed(requests)

    def hold(self, connection: "HttpProtocol") -> None:
        """Record that a client reads too slowly, and limit the unsent bytes of all such clients together.

        The connection whose client has read nothing for the longest time is ended first.
        """
        self._unsent.add(connection)
        waiting = sum(each.unsent for each in self._unsent)
        while waiting > self.limits.unsent:
            slowest = min(self._unsent, key=lambda each: each.unsent_since)
            self._unsent.remove(slowest)
            waiting -= slowest.unsent
            slowest.cut()

    def release(self, connection: "HttpProtocol") -> None:
        """Record that a client has read what was sent to it."""
        self._unsent.discard(connection)

    def _make_room(self, new: "HttpProtocol", now: float) -> bool:
        """Close the connection that is first by `rank`; False if all must stay."""
        ranked = [(rank, each) for each in self._open if each is not new and (rank := each.rank(now)) is not None]
        if not ranked:
            return False
        min(ranked, key=lambda pair: pair[0])[1].make_room()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at all connections, as long as there are any."""
        now = loop.time()
        for connection in tuple(self._open):
            connection.look(now)
        self._sweeping = bool(self._open)
        if self._sweeping:
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop)
