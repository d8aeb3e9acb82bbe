"""What comes in one turn of the event loop, taken together.

Between the kernel's code, the parser's and the app's, a CPU's caches fill with something else again and again. Parsing
what all connections sent, then answering all of it, then writing all replies costs a quarter less than one request
after the other (measured with 32 connections; see BENCHMARKS.md).
"""

import asyncio
import functools
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

_TOGETHER = 64
"""Pieces of what was received that are parsed before the first of their requests is answered, at most."""

_SECONDS = 0.002
"""After this time the replies that are there are written, whatever else is still to be answered."""


class Connection(Protocol):
    """What a turn asks of a connection."""

    transport: asyncio.Transport

    def feed(self, data: bytes) -> None:
        """Parse what came."""

    def answer(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        """Start a request's task; a reply that needs no waiting is there when this returns."""


class Turn:
    """Parses what connections received, starts their requests, and writes their replies, each for all of them.

    A reply that is not there when its request first waits is written when it comes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._received: deque[tuple[Connection, bytes]] = deque()
        self._requests: deque[tuple[Connection, RequestResponseCycle, ASGI3Application]] = deque()
        self._replies: list[tuple[asyncio.Transport, bytes]] = []
        self._due = False
        self._parsing = False
        self._answering = False

    def receive(self, connection: Connection, data: bytes) -> None:
        """Take what a connection received; it is parsed when the loop has read from the others."""
        self._received.append((connection, data))
        self._be_due()

    def start(self, connection: Connection, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        """Start a request after those that came before it."""
        self._requests.append((connection, cycle, app))
        if not (self._parsing or self._answering):  # a pipelined one, whose predecessor had to wait
            self._be_due()

    def write(self, transport: asyncio.Transport, reply: bytes) -> None:
        """Write a whole reply: with those of the other requests, if they are being answered just now."""
        if self._answering:
            self._replies.append((transport, reply))
        else:
            transport.write(reply)

    def flush(self) -> None:
        """Write the replies that are there; to be called before anything is written to a transport by another way."""
        for transport, reply in self._replies:
            if not transport.is_closing():
                transport.write(reply)
        self._replies.clear()

    def run(self) -> None:
        """Do what there is to do."""
        self._due = False
        while self._received or self._requests:
            self._parse()
            self._answer()

    def _be_due(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self.run)

    def _parse(self) -> None:
        self._parsing = True
        for _ in range(min(len(self._received), _TOGETHER)):
            connection, data = self._received.popleft()
            try:
                connection.feed(data)
            except Exception as error:  # noqa: BLE001  # of this connection only
                context = {"message": "Fatal error: protocol.data_received() failed", "exception": error}
                self._loop.call_exception_handler(context)
                connection.transport.abort()
        self._parsing = False

    def _answer(self) -> None:
        self._answering = True
        late = time.perf_counter() + _SECONDS
        try:
            while self._requests:
                connection, cycle, app = self._requests.popleft()
                connection.answer(cycle, app)
                if time.perf_counter() > late:
                    self.flush()
                    late = time.perf_counter() + _SECONDS
        finally:
            self._answering = False
            self.flush()


@functools.lru_cache(maxsize=1)
def turn_of(loop: asyncio.AbstractEventLoop) -> Turn:
    """The one that all connections of a loop share."""
    return Turn(loop)
