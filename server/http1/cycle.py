"""One request and its response, between uvicorn's parser and the app."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from server.http1.compression import accepts_gzip, compressed
from server.http1.turn import Turn
from server.http1.whole import WHOLE

if TYPE_CHECKING:
    from server.http1.protocol import HttpProtocol


class Cycle(RequestResponseCycle):
    """uvicorn's exchange of one request and its response, which takes a response in one message and writes it at once.

    uvicorn looks at each header with two regular expressions and writes head and body one by one. Responses in two
    messages or more take its way, and so do those that end their connection.
    """

    def __init__(self, connection: "HttpProtocol", turn: Turn, *, keep_alive: bool) -> None:
        super().__init__(
            connection.scope,
            connection.transport,
            connection.flow,
            connection.logger,
            connection.access_logger,
            False,
            connection.server_state.default_headers,
            asyncio.Event(),
            connection.expect_100_continue,
            keep_alive,
            connection.on_response_complete,
        )
        self.connection = connection
        self.turn = turn
        self._asked = False

    def take(self, body: bytes) -> None:
        """Take a request's whole body."""
        self.body += body
        self.more_body = False
        self.message_event.set()

    def send(self, message: Any) -> Awaitable[None]:  # type: ignore[override]
        """Take an ASGI message, or a response in one (`server.http1.whole`)."""
        kind = message["type"]
        if kind == WHOLE:
            if len(message["body"]) >= self.connection.compresses_from:
                return self._send_large(message)
            return self._send_whole(message)
        if kind == "http.response.start":
            if self.connection.leaving:
                message["headers"] = [*message.get("headers", ()), _CLOSE]
            if self.more_body and not isinstance(self.transport, _Lingering):
                self.transport = cast("asyncio.Transport", _Lingering(self.transport, self.connection))
        self.turn.flush()
        return super().send(message)

    def _send_whole(self, message: Any) -> Awaitable[None]:
        body: bytes = message["body"]
        if (
            self.response_started
            or self.more_body
            or not self.keep_alive
            or self.disconnected
            or self.flow.write_paused
            or self.connection.leaving
            or self.scope["method"] == "HEAD"
        ):
            return self._send_parts(message)
        length = (b"content-length", b"%d" % len(body))
        head = b"\r\n".join(map(_LINE, (length, *message["headers"], *self.default_headers)))
        if head.find(b"\nconnection: ") >= 0:  # uvicorn's to act on; `in` would try it as a number first
            return self._send_parts(message)
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.turn.write(self.transport, b"%b%b\r\n\r\n%b" % (STATUS_LINE[message["status"]], head, body))
        self.message_event.set()
        self.on_response()
        return _done()

    async def _send_large(self, message: Any) -> None:
        """Send a whole response, smaller if its caller takes that."""
        message["headers"] = [*message["headers"], _VARY]
        said = b",".join(value for name, value in self.scope["headers"] if name == b"accept-encoding")
        if accepts_gzip(said):
            message["headers"].append(_GZIP)
            message["body"] = await compressed(message["body"])
        await self._send_whole(message)

    async def _send_parts(self, message: Any) -> None:
        """Send a whole response as uvicorn does."""
        headers = [*message["headers"], (b"content-length", b"%d" % len(message["body"]))]
        await self.send({"type": "http.response.start", "status": message["status"], "headers": headers})
        await self.send({"type": "http.response.body", "body": message["body"]})

    async def receive(self) -> Any:
        """Give the next ASGI message; a body that is all there without uvicorn's waiting for it.

        A body of which nothing is there begins with an empty part, at once: whoever reads it bounds what comes after
        a first part, and need not bound the first.
        """
        first, self._asked = not self._asked, True
        if first and self.more_body and not self.message_event.is_set():
            if self.waiting_for_100_continue and not self.transport.is_closing():
                self.turn.flush()
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                self.waiting_for_100_continue = False
            return {"type": "http.request", "body": b"", "more_body": True}
        if self.more_body or not self.message_event.is_set() or self.disconnected or self.response_complete:
            self.turn.flush()  # it may say 100 Continue
            return await super().receive()
        self.message_event.clear()
        if self.flow.read_paused:
            self.flow.resume_reading()
        body, self.body = self.body, bytearray()
        return {"type": "http.request", "body": bytes(body), "more_body": False}


class _Lingering:
    """The transport of a request that was answered before all of it had come.

    The rest may still be on its way. Closing at once would make the kernel send a reset, which may overtake the answer.
    """

    def __init__(self, transport: asyncio.Transport, connection: "HttpProtocol") -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self._connection = connection

    def close(self) -> None:
        """Let the caller read its answer first."""
        self._connection.linger()


async def _done() -> None:
    """For callers that await the end of what has ended."""


_LINE = b": ".join
"""A header's line of its name and value."""

_CLOSE = (b"connection", b"close")
_GZIP = (b"content-encoding", b"gzip")
_VARY = (b"vary", b"accept-encoding")
