"""All connections of a replica: their maximum number, their unsent bytes, and the choice of a connection to close."""

import asyncio
import logging
import resource
from collections.abc import Callable
from typing import Protocol

from anyreplica.http.uvicorn.reader import KnownHead
from anyreplica.process.replica import replica_name
from anyreplica.settings import CoreSettings

logger = logging.getLogger(__name__)

KEY = "anyreplica.connections"
"""Key in the lifespan state. Its value is the `Connections` object that the protocol uses."""

_SWEEP_SECONDS = 1.0

_LEAVING = 128
"""Number of connections beyond the limit that may stay open for a moment, until the client has the 503 reply. The
replica resets further connections."""

_FILES_BESIDE = 256
"""Number of open files that are not client connections: files of tools, database connections, files of Python."""


class OpenConnection(Protocol):
    """What `Connections` needs of a connection. `HttpProtocol` has it."""

    unsent: int
    unsent_since: float

    @property
    def is_closing(self) -> bool: ...
    def check_timeouts(self, now: float) -> None: ...
    def end_after_stream(self) -> None: ...
    def make_room(self) -> None: ...
    def rank(self, now: float) -> tuple[int, float] | None: ...
    def refuse(self, status: str, text: str, *headers: str) -> None: ...
    def reset(self) -> None: ...


class Connections:
    """The open connections of a replica. They are checked once a second, so that no request needs a timer."""

    def __init__(self, settings: CoreSettings) -> None:
        self.settings = settings
        self.replica = replica_name(settings)
        self.draining = False
        """Whether each response must be the last of its connection."""
        self.opened = 0
        """Number of connections since the start, including closed ones."""
        self.closed: Callable[[int], object] = lambda _: None
        """Function to call when a connection has ended, with the number of its requests."""
        self.known_heads: dict[bytes, KnownHead] = {}
        """The request heads that the replica remembers, by their bytes."""
        self._open: set[OpenConnection] = set()
        self._unsent: set[OpenConnection] = set()
        """The connections with clients that read too slowly."""
        self._sweeping = False

    def drain(self) -> None:
        self.draining = True
        for connection in self._open:
            connection.end_after_stream()

    def add(self, connection: OpenConnection, loop: asyncio.AbstractEventLoop) -> None:
        """Add a new connection. Refuse it if the limit is reached and no other connection can be closed for it."""
        most = self.settings.max_connections
        self.opened += 1
        self._open.add(connection)
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop)
        if len(self._open) <= most:
            return
        staying = [each for each in self._open if not each.is_closing]
        if len(staying) > most and not self._make_room(connection, loop.time()):
            if len(self._open) > most + _LEAVING:
                connection.reset()
            else:
                text = f"Connection limit reached (MAX_CONNECTIONS={most}); retry later."
                connection.refuse("503 Service Unavailable", text, "retry-after: 1")

    def remove(self, connection: OpenConnection, requests: int) -> None:
        """Remove a connection that has ended. `requests` is the number of its requests."""
        self._open.discard(connection)
        self._unsent.discard(connection)
        self.closed(requests)

    def hold(self, connection: OpenConnection) -> None:
        """Record that a client reads too slowly, and limit the unsent bytes of all such clients together.

        Beyond the limit, this method closes connections until the rest is within the limit. It begins with the client
        that has read nothing for the longest time.
        """
        self._unsent.add(connection)
        waiting = sum(each.unsent for each in self._unsent)
        while waiting > self.settings.max_buffered_bytes:
            slowest = min(self._unsent, key=lambda each: each.unsent_since)
            self._unsent.remove(slowest)
            waiting -= slowest.unsent
            slowest.reset()

    def release(self, connection: OpenConnection) -> None:
        self._unsent.discard(connection)

    def _make_room(self, new: OpenConnection, now: float) -> bool:
        """Close the connection with the smallest `rank`. Return False if all connections must stay."""
        ranked = [(rank, each) for each in self._open if each is not new and (rank := each.rank(now)) is not None]
        if not ranked:
            return False
        min(ranked, key=lambda pair: pair[0])[1].make_room()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in tuple(self._open):
            connection.check_timeouts(now)
        self._sweeping = bool(self._open)
        if self._sweeping:
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop)


def allow_files(connections: int) -> None:
    """Raise the limit of open files of this process to fit a number of connections. Log a warning if that fails.

    On many systems the limit is 1024 at first, and a process may raise it. A process without free file descriptors
    cannot accept connections.
    """
    wanted = connections + _FILES_BESIDE
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY or files >= wanted:
        return
    granted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (granted, most))
    if granted < wanted:
        text = "MAX_CONNECTIONS=%d needs %d open files, but the limit of this process is %d; raise it (ulimit -n)"
        logger.warning(text, connections, wanted, granted)
