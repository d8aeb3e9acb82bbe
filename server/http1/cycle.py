"""One request and its response, between uvicorn's parser and the app."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Protocol, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from server.http1.turn import Turn


class Connection(Protocol):
    """What a response asks of its connection."""

    @property
    def leaving(self) -> bool:
        """Whether the next response is to be the connection's last."""

    def linger(self) -> None:
        """Close the connection, but let the caller read its answer first."""


class Cycle(RequestResponseCycle):
    """uvicorn's exchange of one request and its response, which writes a whole response at once if it can.

    uvicorn looks at each header with two regular expressions and writes head and body one by one. A response of a
    known length keeps its head until the body is there; if that is all of it, both go out together. Any other takes
    uvicorn's way.
    """

    turn: Turn
    """Writes replies."""
    connection: "Connection"
    """Knows whether this response is its last."""
    _head: Any = None
    """The message that began a response, while it waits for its body."""

    def send(self, message: Any) -> Awaitable[None]:  # type: ignore[override]
        """Take an ASGI message."""
        head = self._head
        if head is None:
            if self.connection.leaving and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), _CLOSE]
            if self.more_body and not isinstance(self.transport, _Lingering):
                self.transport = cast("asyncio.Transport", _Lingering(self.transport, self.connection))
            if self._may_wait(message):
                self._head = message
                return _DONE
            self.turn.flush()
            return super().send(message)
        self._head = None
        written = None
        if self.keep_alive and not self.disconnected and not self.flow.write_paused:
            written = _whole(head, self.default_headers, message)
        if written is None:
            return self._send_both(head, message)
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.turn.write(self.transport, written)
        self.message_event.set()
        self.on_response()
        return _DONE

    async def _send_both(self, head: Any, message: Any) -> None:
        self.turn.flush()
        await super().send(head)
        await super().send(message)

    def _may_wait(self, message: Any) -> bool:
        """Whether a message begins a response of a known length; the head of an event stream must go out at once."""
        if self.response_started or message["type"] != "http.response.start" or self.scope["method"] == "HEAD":
            return False
        return any(name == b"content-length" for name, _ in message["headers"])

    async def receive(self) -> Any:
        """Give the next ASGI message; a body that is all there without uvicorn's waiting for it."""
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

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self._connection = connection

    def close(self) -> None:
        """Let the caller read its answer first."""
        self._connection.linger()


class _Done:
    """An awaitable that is done; a coroutine for nothing costs twice as much."""

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


_DONE = _Done()


def _whole(head: Any, defaults: list[tuple[bytes, bytes]], message: Any) -> bytes | None:
    """A response's bytes; None unless it is all there, of the length that it announces."""
    if message.get("more_body", False):
        return None
    body: bytes = message.get("body", b"")
    length = None
    lines = []
    for name, value in head["headers"]:
        if name == b"content-length":
            length = value
        elif name in _OF_THE_CONNECTION:
            return None
        lines.append(name + b": " + value)
    for name, value in defaults:
        lines.append(name + b": " + value)
    if length != b"%d" % len(body):
        return None
    written = STATUS_LINE[head["status"]] + b"\r\n".join(lines) + b"\r\n\r\n"
    # A header with a line break in it would begin another; uvicorn refuses it.
    whole = len(lines) + 2
    return written + body if written.count(b"\n") == whole == written.count(b"\r") else None


_CLOSE = (b"connection", b"close")
_OF_THE_CONNECTION = frozenset({b"connection", b"transfer-encoding"})
