"""A request and its response, between the parser and the app, and the queue that writes responses together."""

import asyncio
import functools
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, Protocol, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.server import ServerState

from anyreplica.http.compression import accepts_gzip, compressed
from anyreplica.http.responses import WHOLE
from anyreplica.settings import CoreSettings

_SECONDS = 0.002
"""Time limit for the work of a `WriteBatch`, in seconds. Then the event loop reads the data that has arrived."""

_LARGE = 64 * 1024
"""Minimum size of a body that is written alone and not together with other replies, in bytes."""


class WriteBatch:
    """A queue of the work of all connections (parsing, answering), which also writes their replies together.

    Each write to a socket is a system call. The call may also wake the process that reads, on another core. In a
    virtual machine, it may wake the network driver of the host. README.md in this folder has the measured costs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = copy_context()
        self._waiting: deque[Callable[[], None]] = deque()
        self._replies: list[tuple[asyncio.Transport, bytes]] = []
        self._due = False
        self._running = False

    def start(self, work: Callable[[], None]) -> None:
        """Queue a piece of work. It runs after the event loop has read from all connections."""
        self._waiting.append(work)
        if not self._due:
            self._be_due()

    def write(self, transport: asyncio.Transport, reply: bytes) -> None:
        """Write a reply together with the others of this turn, or at once if no work of the queue runs.

        A tool that has waited replies outside of the queue's work. Another turn of the loop for its reply would cost a
        fifth of the call.
        """
        if self._running:
            self._replies.append((transport, reply))
        elif not transport.is_closing():
            transport.write(reply)

    def flush(self) -> None:
        """Write the waiting replies. Call this method before you use the transport directly to write or to close."""
        replies, self._replies = self._replies, []
        for transport, reply in replies:
            if not transport.is_closing():
                transport.write(reply)

    def _be_due(self) -> None:
        self._due = True
        self._loop.call_soon(self._run, context=self._context)

    def _run(self) -> None:
        late = time.perf_counter() + _SECONDS
        waiting = self._waiting
        self._running = True
        try:
            while waiting and time.perf_counter() < late:
                waiting.popleft()()
        finally:
            self._due = self._running = False
            self.flush()
            if waiting:
                self._be_due()


write_batch_for = functools.lru_cache(maxsize=1)(WriteBatch)
"""Returns the `WriteBatch` that all connections of an event loop share."""


@functools.lru_cache(maxsize=256)
def _head(status: int, *headers: tuple[bytes, bytes]) -> bytes | None:
    """Return the head of a response up to the value of Content-Length, its last header of these.

    None: uvicorn must write the response, because it must handle a header `Connection`.
    """
    if any(name == b"connection" for name, _ in headers):
        return None
    return STATUS_LINE[status] + b"".join([b"%b: %b\r\n" % each for each in headers]) + b"content-length: "


class _Done:
    """An awaitable that is done. A coroutine that does nothing costs more."""

    def __await__(self) -> Any:
        return iter(())


_DONE = _Done()


class _NoEvent:
    """What uvicorn's code sets when a response is complete. `Cycle` needs no event for this."""

    def set(self) -> None:
        """Do nothing."""


class Unread(Protocol):
    """What a `Cycle` asks the reader of its connection. `Reader` has it."""

    unparsed: bytes

    @property
    def has_more(self) -> bool: ...


class CycleConnection(Protocol):
    """What a `Cycle` needs of its connection. `HttpProtocol` has it."""

    transport: asyncio.Transport
    flow: FlowControl
    server_state: ServerState
    settings: CoreSettings
    turn: WriteBatch

    @property
    def next_is_last(self) -> bool: ...
    @property
    def reader(self) -> Unread: ...
    def linger(self) -> None: ...
    def on_response_complete(self) -> None: ...


class Cycle(RequestResponseCycle):
    """A request and its response, based on uvicorn's class, with faster code for a response in one message.

    uvicorn checks each header with two regular expressions and writes the head and the body separately. This class
    writes a whole response itself in the usual case. uvicorn's code writes the others: responses in several messages,
    to HEAD, with a `Connection` header, before the whole request has arrived, to a slow client, and the last one of a
    connection.
    """

    logger = logging.getLogger("uvicorn.error")
    access_log = False
    message_event = cast("asyncio.Event", _NoEvent())
    disconnected = False
    chunked_encoding: bool | None = None
    expected_content_length = 0
    body: bytes | bytearray  # type: ignore[assignment]  # for uvicorn it is a bytearray
    _event: asyncio.Event | None = None
    """The event that `receive` waits for. Most requests need none."""

    def __init__(
        self,
        connection: CycleConnection,
        scope: Any,
        body: bytes | bytearray,
        *,
        keep_alive: bool = True,
        expects_100: bool = False,
    ) -> None:
        # The same attributes as in uvicorn's class. The attributes above rarely change.
        self.connection = connection
        self.scope = scope
        self.transport = connection.transport
        self.flow = connection.flow
        self.default_headers = connection.server_state.default_headers
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = expects_100
        self.body = body
        self.more_body = True
        self.has_news = False
        """Whether a part or the end of the body has arrived that the app has not received yet, or the disconnect."""
        self.response_started = self.response_complete = self._asked = False

    def on_response(self) -> None:
        """Tell the connection that the response is complete. uvicorn's code calls this method."""
        self.connection.on_response_complete()

    def abandon(self) -> None:
        """Signal to the app that the client has disconnected. The server discards the rest of the response."""
        self.disconnected = True
        self.notify()

    def notify(self) -> None:
        """Wake the app if it waits in `receive`."""
        self.has_news = True
        if self._event is not None:
            self._event.set()

    def send(self, message: Any) -> Awaitable[None]:  # type: ignore[override]
        """Send an ASGI message, or a whole response in one message (`anyreplica.http.responses`)."""
        kind = message["type"]
        if kind == WHOLE:
            if 0 < self.connection.settings.compress_min_bytes <= len(message["body"]):
                return self._send_large(message)
            return self._send_whole(message)
        if kind == "http.response.start" and self.connection.next_is_last:
            message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
        return self._send_part(message)

    async def _send_part(self, message: Any) -> None:
        """Send one ASGI message of a response as uvicorn does. After the last message, wait as `_drained` does."""
        if (self.more_body or self.connection.reader.has_more) and not isinstance(self.transport, _Lingering):
            self.transport = cast("asyncio.Transport", _Lingering(self.transport, self.connection))
        self.connection.turn.flush()
        await super().send(message)
        del message  # free its memory: it may be large, and the wait may be long
        if self.response_complete:
            self.notify()
            await self._drained()

    async def _drained(self) -> None:
        """Wait while too many bytes of the response wait for the client. Until then the request is in flight."""
        if self.flow.write_paused:
            await self.flow.drain()

    def _send_whole(self, message: Any) -> Awaitable[None]:
        body: bytes = message["body"]
        if (
            self.response_started
            or self.more_body
            or not self.keep_alive
            or self.disconnected
            or self.flow.write_paused
            or self.connection.next_is_last
            or self.scope["method"] == "HEAD"
        ):
            return self._send_parts(message)
        head = _head(message["status"], *message["headers"], *self.default_headers)
        if head is None:
            return self._send_parts(message)
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        head = b"%b%d%b\r\n\r\n" % (head, len(body), message.get("lines", b""))
        if len(body) < _LARGE:
            self.connection.turn.write(self.transport, head + body)
        else:  # write a large body without copying it
            self.connection.turn.flush()
            self.transport.writelines((head, body))
        if self._event is not None:
            self._event.set()
        self.connection.on_response_complete()
        is_paused: bool = self.connection.flow.write_paused  # the write may have changed it
        return self._drained() if is_paused else _DONE

    async def _send_large(self, message: Any) -> None:
        message["headers"] = [*message["headers"], (b"vary", b"accept-encoding")]
        accepted = b",".join(value for name, value in self.scope["headers"] if name == b"accept-encoding")
        if accepts_gzip(accepted):
            message["headers"].append((b"content-encoding", b"gzip"))
            message["body"] = await compressed(message["body"])
        sending = self._send_whole(message)
        del message
        await sending

    async def _send_parts(self, message: Any) -> None:
        """Send a whole response as uvicorn does."""
        lines = [line.partition(b": ")[::2] for line in message.get("lines", b"").split(b"\r\n")[1:]]
        headers = [*message["headers"], *lines, (b"content-length", b"%d" % len(message["body"]))]
        await self.send({"type": "http.response.start", "status": message["status"], "headers": headers})
        sending = self.send({"type": "http.response.body", "body": message["body"]})
        del message
        await sending

    def body_at_once(self, most: int) -> bytes | None:
        """Return the whole body if it has arrived and has at most `most` bytes. `receive` then returns no part of it.

        None: it has not arrived, or it is larger.
        """
        if self.more_body or self._asked or self.disconnected or len(self.body) > most:
            return None
        self._asked = True
        self.has_news = False
        body, self.body = self.body, b""
        return bytes(body)

    async def receive(self) -> Any:
        """Return the next ASGI message.

        If no part of the body has arrived, the first call returns an empty part at once. So the reader of a body needs
        a time limit only for the parts after the first one.
        """
        first, self._asked = not self._asked, True
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.connection.turn.flush()
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not (self.disconnected or self.response_complete):
            if first and not self.has_news:
                return {"type": "http.request", "body": b"", "more_body": True}
            if not self.connection.reader.unparsed:  # otherwise the server first parses the data that it has
                self.flow.resume_reading()
            if not self.has_news:
                if self._event is None:
                    self._event = asyncio.Event()
                await self._event.wait()
            self.has_news = False
            if self._event is not None:
                self._event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = self.body, bytearray()
        return {"type": "http.request", "body": bytes(body), "more_body": self.more_body}


class UnchunkedCycle(Cycle):
    """A request of an HTTP/1.0 client, and its response.

    Such a client cannot read chunks (RFC 9112, section 6.1). A body of unknown length, such as an event stream, ends
    with the connection.
    """

    _ends_with_connection = False

    async def _send_part(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            if not names & {b"content-length", b"transfer-encoding"}:
                self._ends_with_connection = True
                self.chunked_encoding = False
        elif self._ends_with_connection:
            self.expected_content_length = len(message.get("body", b""))  # uvicorn compares both
        await super()._send_part(message)


class _Lingering:
    """The transport of a request that gets its answer before the whole request has arrived.

    The rest may still arrive. If the server closed the connection at once, the kernel would send a reset. The reset may
    reach the client before the answer.
    """

    def __init__(self, transport: asyncio.Transport, connection: CycleConnection) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = connection.linger
