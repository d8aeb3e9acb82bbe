"""HTTP/1.1 from a client's side, as little of it as a load test needs: one request, then its whole response.

Own code because the generator must cost less than the server that it measures.
"""

import asyncio
from dataclasses import dataclass, field
from typing import cast

import httptools

_RETRY_AFTER = b"retry-after"
_SERVED_BY = b"x-served-by"
_SESSION = b"mcp-session-id"


@dataclass(slots=True)
class HttpReply:
    """A whole HTTP response."""

    status: int = 0
    replica: str = ""
    """What `X-Served-By` says."""
    retry_after: str = ""
    session: str = ""
    """What `Mcp-Session-Id` says."""
    body: bytes = b""
    parts: list[bytes] = field(default_factory=list)


class ConnectionEnded(Exception):
    """No whole response came; `str()` says what happened instead, in a word or two."""


class Connection(asyncio.Protocol):
    """One connection; one request is on its way at a time."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.requests = 0
        """How many requests it has carried."""
        self.open = False
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._reply = HttpReply()
        self._waiter: asyncio.Future[HttpReply] | None = None
        self.since = 0.0
        """When the request on its way was sent, by the loop's clock; 0 if none is."""

    def send(self, request: bytes) -> asyncio.Future[HttpReply]:
        """Send a request; the future gives its response.

        Raises (the future):
            ConnectionEnded: the connection was closed or reset, or what came was no HTTP.
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

    def give_up(self, why: str) -> None:
        """Fail the request on its way, and close."""
        self._fail(why)
        self.close()

    def close(self) -> None:
        """Close it at once."""
        self.open = False
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        self.transport = cast("asyncio.Transport", transport)
        self.open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self.open = False
        self._fail("connection reset" if isinstance(exc, ConnectionResetError) else "connection closed")

    def data_received(self, data: bytes) -> None:
        """Take a part of a response."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.give_up("not HTTP")

    def on_message_begin(self) -> None:
        """A response begins."""
        self._reply = HttpReply()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has been read."""
        name = name.lower()
        if name == _SERVED_BY:
            self._reply.replica = value.decode("latin-1")
        elif name == _RETRY_AFTER:
            self._reply.retry_after = value.decode("latin-1")
        elif name == _SESSION:
            self._reply.session = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """A part of the body has been read."""
        self._reply.parts.append(body)

    def on_message_complete(self) -> None:
        """The response is whole."""
        reply = self._reply
        reply.status = self._parser.get_status_code()
        if reply.status < 200:  # informational: the response is still to come
            return
        reply.body = reply.parts[0] if len(reply.parts) == 1 else b"".join(reply.parts)
        if not self._parser.should_keep_alive():
            self.close()
        waiter, self._waiter, self.since = self._waiter, None, 0.0
        if waiter is None:  # nobody asked for it
            self.close()
        elif not waiter.done():
            waiter.set_result(reply)

    def _fail(self, why: str) -> None:
        waiter, self._waiter, self.since = self._waiter, None, 0.0
        if waiter is not None and not waiter.done():
            waiter.set_exception(ConnectionEnded(why))
