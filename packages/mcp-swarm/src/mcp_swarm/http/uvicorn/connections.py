"""All connections of a replica: how many there may be, which one makes room for a new one, and their unsent bytes."""

import asyncio
import logging
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_swarm.process.replica import replica_name
from mcp_swarm.settings import Settings

if TYPE_CHECKING:
    from mcp_swarm.http.uvicorn.protocol import HttpProtocol

logger = logging.getLogger(__name__)

KEY = "mcp_swarm.connections"
"""Key of the lifespan's state under which the protocol finds the connections."""

_SWEEP_SECONDS = 1.0

_LEAVING = 128
"""Connections beyond the limit that may be open for a moment, to be told why they are closed."""

_FILES_BESIDE = 256
"""Open files that are no connections of callers: what tools open, a database's connections, Python's own."""


class Connections:
    """The open connections, looked at once a second instead of by a timer for each request."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.replica = replica_name(settings)
        self.draining = False
        """Whether each response is to be its connection's last."""
        self.opened = 0
        """How many connections there have been."""
        self.closed: Callable[[int], object] = lambda _: None
        """Called when a connection has ended, with the number of requests that it carried."""
        self._open: set[HttpProtocol] = set()
        self._unsent: set[HttpProtocol] = set()
        """Those whose clients read too slowly."""
        self._sweeping = False

    def drain(self) -> None:
        self.draining = True

    def add(self, connection: "HttpProtocol", loop: asyncio.AbstractEventLoop) -> None:
        """Take a new connection, or refuse it if none of the others can make room for it."""
        most = self.settings.max_connections
        self.opened += 1
        self._open.add(connection)
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop)
        if len(self._open) <= most:
            return
        staying = [each for each in self._open if not each.is_leaving]
        if len(staying) > most and not self._make_room(connection, loop.time()):
            if len(self._open) > most + _LEAVING:
                connection.cut()
            else:
                text = f"Connection limit reached (MAX_CONNECTIONS={most}); retry later."
                connection.refuse("503 Service Unavailable", text, "retry-after: 1")

    def remove(self, connection: "HttpProtocol", requests: int) -> None:
        """Forget a connection that has ended, and that carried so many requests."""
        self._open.discard(connection)
        self._unsent.discard(connection)
        self.closed(requests)

    def hold(self, connection: "HttpProtocol") -> None:
        """Record that a client reads too slowly, and limit the unsent bytes of all such clients together.

        The connection whose client has read nothing for the longest time is ended first.
        """
        self._unsent.add(connection)
        waiting = sum(each.unsent for each in self._unsent)
        while waiting > self.settings.max_buffered_bytes:
            slowest = min(self._unsent, key=lambda each: each.unsent_since)
            self._unsent.remove(slowest)
            waiting -= slowest.unsent
            slowest.cut()

    def release(self, connection: "HttpProtocol") -> None:
        self._unsent.discard(connection)

    def _make_room(self, new: "HttpProtocol", now: float) -> bool:
        """Close the connection that is first by `rank`. False if all must stay."""
        ranked = [(rank, each) for each in self._open if each is not new and (rank := each.rank(now)) is not None]
        if not ranked:
            return False
        min(ranked, key=lambda pair: pair[0])[1].make_room()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in tuple(self._open):
            connection.look(now)
        self._sweeping = bool(self._open)
        if self._sweeping:
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop)


def allow_files(connections: int) -> None:
    """Have the system let this process open a file for each of so many connections; warn if it doesn't.

    Many systems begin at 1024 and let a process ask for more. One that runs out of files can't accept connections.
    """
    wanted = connections + _FILES_BESIDE
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY or files >= wanted:
        return
    granted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (granted, most))
    if granted < wanted:
        text = "MAX_CONNECTIONS=%d takes %d open files, and this process may have %d (ulimit -n)"
        logger.warning(text, connections, wanted, granted)
