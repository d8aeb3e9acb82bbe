"""A minimal HTTP/1.1 client for the load test: it sends one request, then reads the whole response.

The load test does not use an HTTP library, because the load generator must use less CPU time than the server that it
measures.
"""

import asyncio
import os
from dataclasses import dataclass, field
from typing import cast

import httptools

_RETRY_AFTER = b"retry-after"
_SERVED_BY = b"x-served-by"
_SESSION = b"mcp-session-id"


@dataclass(slots=True)
class HttpReply:
    """A complete HTTP response."""

    status: int = 0
    replica: str = ""
    """Value of the header `X-Served-By`."""
    retry_after: str = ""
    session: str = ""
    """Value of the header `Mcp-Session-Id`."""
    body: bytes = b""
    parts: list[bytes] = field(default_factory=list)


class ConnectionEnded(Exception):
    """The connection ended before the response was complete; `str()` gives the kind of failure in a few words."""


class Connection(asyncio.Protocol):
    """A connection with at most one request in flight."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.requests = 0
        """Number of requests sent over this connection."""
        self.open = False
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._reply = HttpReply()
        self._waiter: asyncio.Future[HttpReply] | None = None
        self.since = 0.0
        """Time when the request in flight was sent, in seconds of the event loop's clock; 0 if none is in flight."""

    def send(self, request: bytes) -> asyncio.Future[HttpReply]:
        """Send a request and return a future for its response.

        Raises (from the future):
            ConnectionEnded: The connection was closed or reset, or the response was not HTTP.
        """
        self.requests += 1
        self._waiter = self._loop.create_future()
        if not self.open:
            self._fail("connection closed")
            return self._waiter
        self.since = self._loop.time()
        waiter = self._waiter
        self.transport.write(request)
        return waiter

    def abandon(self, why: str) -> None:
        """Fail the request in flight and close the connection."""
        self._fail(why)
        self.close()

    def close(self) -> None:
        """Close the connection at once."""
        self.open = False
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Mark the connection as open."""
        self.transport = cast("asyncio.Transport", transport)
        self.open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the connection as closed and fail the request in flight."""
        self.open = False
        self._fail(_why(exc))

    def data_received(self, data: bytes) -> None:
        """Parse a part of a response."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abandon("not HTTP")

    def on_message_begin(self) -> None:
        """Begin a new response."""
        self._reply = HttpReply()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a response header that the report uses."""
        name = name.lower()
        if name == _SERVED_BY:
            self._reply.replica = value.decode("latin-1")
        elif name == _RETRY_AFTER:
            self._reply.retry_after = value.decode("latin-1")
        elif name == _SESSION:
            self._reply.session = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Record a part of the response body."""
        self._reply.parts.append(body)

    def on_message_complete(self) -> None:
        """Deliver the complete response."""
        reply = self._reply
        reply.status = self._parser.get_status_code()
        if reply.status < 200:  # An informational response (RFC 9110, 15.2): the final response follows.
            return
        reply.body = reply.parts[0] if len(reply.parts) == 1 else b"".join(reply.parts)
        if not self._parser.should_keep_alive():
            self.close()
        waiter, self._waiter, self.since = self._waiter, None, 0.0
        if waiter is None:  # The server sent a response without a request.
            self.close()
        elif not waiter.done():
            waiter.set_result(reply)

    def _fail(self, why: str) -> None:
        waiter, self._waiter, self.since = self._waiter, None, 0.0
        if waiter is not None and not waiter.done():
            waiter.set_exception(ConnectionEnded(why))


def _why(error: Exception | None) -> str:
    """Return why a connection ended, in a few words, for example "no route to host" if a node is gone."""
    if isinstance(error, ConnectionResetError):
        return "connection reset"
    known = isinstance(error, OSError) and error.errno
    return os.strerror(known).lower() if known else "connection closed"
