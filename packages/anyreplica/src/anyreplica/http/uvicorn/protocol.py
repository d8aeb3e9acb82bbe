"""An HTTP/1.1 connection: the app answers its requests, within the limits of this server."""

import asyncio
import contextvars
import functools
import math
import random
import secrets
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl

from anyreplica.http.responses import ASGI_EXTENSIONS
from anyreplica.http.uvicorn.connections import KEY, Connections
from anyreplica.http.uvicorn.cycle import Cycle, write_batch_for
from anyreplica.http.uvicorn.reader import SLICE, Reader
from anyreplica.process.event_loop import EagerTask
from anyreplica.settings import CoreSettings

if TYPE_CHECKING:
    from uvicorn._types import ASGIVersions
    from uvicorn.config import Config
    from uvicorn.server import ServerState

_LINGER_SECONDS = 2.0
"""Time for a client to read its answer while it still sends data, in seconds. The server discards this data."""

_STUCK_SECONDS = 1.0
"""Time for which a client may read nothing of its reply, in seconds. After that, the server may close the connection to
make room for a new one."""

_JITTER = 0.25
"""Maximum random change of a connection's limits of age and requests, as a share of the setting. Without this change,
all connections that began at the same time would end at the same time."""

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with a time of 0 seconds: the kernel resets the connection (socket(7))."""

_ASGI: "ASGIVersions" = {"version": "3.0", "spec_version": "2.3"}


def _about(number: float) -> float:
    return number * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  # not a secret


class HttpProtocol(asyncio.Protocol):
    """A connection with the limits of the settings. uvicorn creates one object per connection.

    A connection ends after a number of requests, after some time, or when the replica drains. Its last response has
    `Connection: close`, so that no request is lost. The connection refuses a request head that is too long (431), too
    slow (408) or invalid (400). A new connection beyond `MAX_CONNECTIONS` is refused with 503 if no other connection
    can be closed for it.

    The app answers the requests of a connection one after the other, each in a later turn of the event loop. So a
    client that sends many requests at once does not delay other clients. While a request is in flight, the server does
    not start the next request. If further data arrives, the server stops reading from the connection.
    """

    _lingers_until: float | None = None
    """Time of the event loop at which the server cuts the connection. None: the last response is not sent yet."""
    _retiring = False
    """Whether the next response is the last one because the connection is old or had an invalid request."""
    unsent = 0
    """Number of bytes that waited for the client at the last check."""
    unsent_since = 0.0
    """Time of the event loop at which the client last read some of the unsent bytes."""

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        # Python reads attributes faster if an object has at most 30 attributes and `__init__` sets them all (measured:
        # a tenth of the time that this package needs for a request). The attributes above rarely change.
        app: Any = config.loaded_app
        self.app = getattr(app, "replica_app", None) or app
        self.loop = _loop or asyncio.get_running_loop()
        self.server_state = server_state
        self.turn = write_batch_for(self.loop)
        self._connections: Connections = app_state[KEY]
        self.settings: CoreSettings = self._connections.settings
        self._app_state = app_state
        self._keep_alive: float = config.timeout_keep_alive
        self._context = contextvars.copy_context()  # a context without values of any request
        self._active: Cycle | None = None
        """The request that the app answers now."""
        now = self._idle_since = self.loop.time()
        """Time of the event loop at which the connection began to wait for a request."""
        age, requests = self.settings.max_connection_age_seconds, self.settings.max_requests_per_connection
        self._retires_at = now + _about(age) if age else math.inf
        self._requests_left = self._first_left = max(1, round(_about(requests))) if requests else -1
        # Set in `connection_made`:
        self.transport: asyncio.Transport
        self.flow: FlowControl
        self.reader: Reader

    @property
    def next_is_last(self) -> bool:
        """Whether the next response must be the last of the connection.

        That is the case at the maximum number of requests. While the connection is old or the replica drains, it is the
        case if no received request waits.
        """
        return not self._requests_left or ((self._retiring or self._connections.draining) and not self.reader.waiting)

    @property
    def is_closing(self) -> bool:
        """Whether the connection is being closed."""
        return self._lingers_until is not None or self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.flow = FlowControl(self.transport)
        self.server_state.connections.add(cast("Any", self))
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "server": get_local_addr(self.transport),
            "client": get_remote_addr(self.transport),
            "scheme": "https" if is_ssl(self.transport) else "http",
            "root_path": self.settings.prefix,
            "extensions": ASGI_EXTENSIONS,
        }
        known = self._connections.known_heads
        self.reader = Reader(self, self.settings.max_head_bytes, scope, self._app_state, known)
        self._connections.add(self, self.loop)

    def rank(self, now: float) -> tuple[int, float] | None:
        """Return a sort key. The server closes the connection with the smallest key to make room for a new one.

        None: this connection must stay.
        """
        if self.is_closing:
            return None
        if self.unsent and self.unsent_since < now - _STUCK_SECONDS:
            return 0, self.unsent_since
        if self.reader.has_more:  # a client that pipelines must be able to retry (RFC 9112, section 9.3.2)
            return 3, self._retires_at
        if self._active is not None:
            return None
        since = self.reader.head_since
        return (1, self._idle_since) if since is None else (2, since)

    def make_room(self) -> None:
        """Close the connection to make room for a new one."""
        self.turn.flush()
        if self.transport.get_write_buffer_size():  # `close` would wait until the client has read these bytes
            self.reset()
        else:
            self.transport.close()

    def check_timeouts(self, now: float) -> None:
        """Close the connection if a time limit is over. If the connection is old, make the next response its last."""
        if self._lingers_until is not None:
            if self._lingers_until < now:
                self.reset()
        elif self._is_stalled(now):
            self.reset()
        elif self.reader.is_late(now - self.settings.receive_timeout_seconds):
            seconds = self.settings.receive_timeout_seconds
            text = f"Request head too slow: it did not arrive within {seconds:g} s (RECEIVE_TIMEOUT_SECONDS)."
            self.refuse("408 Request Timeout", text)
        elif self._active is None and not self.reader.has_more and self._idle_since < now - self._keep_alive:
            self.transport.close()
        elif self._retires_at < now:
            self._retiring = True

    def _is_stalled(self, now: float) -> bool:
        """Return whether bytes have waited too long and the client has read none of them in this time."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or not self.unsent or unsent < self.unsent:
            self.unsent_since = now
        self.unsent = unsent
        return self.unsent_since < now - self.settings.send_timeout_seconds

    def pause_writing(self) -> None:
        """Record that the client reads slower than the server sends."""
        self.flow.pause_writing()
        self.unsent = self.transport.get_write_buffer_size()
        self.unsent_since = self.loop.time()
        self._connections.hold(self)

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        self._connections.release(self)
        self._go_on_later()

    def data_received(self, data: bytes) -> None:
        """Handle received data. Parse a large piece in several turns, so that other connections do not wait."""
        reader = self.reader
        if reader.discarding:
            return
        if self._active is None and not reader.waiting and (cycle := reader.repeated(data)) is not None:
            reader.waiting.append(cycle)
            self._begin()
        elif reader.unparsed or len(data) > SLICE:
            reader.unparsed += data
            self.flow.pause_reading()
            self.turn.start(self._go_on)
        else:
            reader.unparsed = data
            self._go_on()

    def _go_on_later(self) -> None:
        if self.reader.has_more:
            self.loop.call_soon(self._go_on, context=self._context)

    def _go_on(self) -> None:
        """Parse a part of the received data, at most up to the end of a request, and start to answer that request."""
        reader = self.reader
        reader.read(busy=self._active is not None)
        if reader.waiting and self._active is None and self._begin():
            reader.read(busy=True)
        if reader.unparsed:
            self.flow.pause_reading()
            if reader.can_read(busy=self._active is not None):
                self.turn.start(self._go_on)
        elif self.flow.read_paused and reader.has_room and not self.is_closing:
            self.flow.resume_reading()

    def _begin(self) -> bool:
        """Start to answer the first request that waits. Return False if the client reads nothing or is being left."""
        if self.flow.write_paused or self.is_closing:
            return False
        self._active = self.reader.waiting.popleft()
        self._requests_left -= 1
        # `_answer` runs after the loop has read from all connections, so the server writes the replies together.
        self.turn.start(self._answer)
        return True

    def reset(self) -> None:
        """End the connection at once with a reset, and discard the bytes that the client has not read.

        Without a reset, the kernel would keep these bytes as long as the client does not read.
        """
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            with suppress(OSError):  # the socket is already closed
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def linger(self) -> None:
        """Close the connection in steps, so that a client that still sends data can read its answer.

        If the server closed the connection at once, the kernel would send a reset. The reset may reach the client
        before the answer (RFC 9112, section 9.6).
        """
        self.turn.flush()
        self.reader.stop()
        if not self.transport.can_write_eof():  # TLS
            self.transport.close()
            return
        self._lingers_until = self.loop.time() + _LINGER_SECONDS
        self.flow.resume_reading()
        self.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        for cycle in (self._active, self.reader.latest):
            if cycle is not None:
                cycle.abandon()
        self.server_state.connections.discard(cast("Any", self))
        self._connections.remove(self, self._first_left - self._requests_left)
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self._active = None
        self.reader.close()

    def end_after_stream(self) -> None:
        """Close the connection after a response whose head was sent before the drain, without `Connection: close`.

        Otherwise the client of an event stream could send its next request to this replica, on a connection that closes
        soon.
        """
        latest = self.reader.latest
        if latest is not None and latest.response_started and not latest.response_complete:
            latest.keep_alive = False

    def shutdown(self) -> None:
        """Close the connection after the answers to all its requests. uvicorn calls this method when it stops."""
        self.turn.flush()
        while self.reader.can_read(busy=self._active is not None):  # all received requests get an answer
            self._go_on()
        latest = self.reader.latest
        if latest is None or latest.response_complete:
            self.transport.close()
        else:
            latest.keep_alive = False

    def _answer(self) -> None:
        cycle = self._active
        if cycle is None:  # the connection was lost before the turn of this request
            return
        running: Any = self.app(cycle.scope, cycle.receive, cycle.send)
        task = EagerTask(running, loop=self.loop, context=self._context.copy(), eager_start=True)
        if task.done():
            self._ended(cycle, task)
        else:
            self.server_state.tasks.add(task)
            task.add_done_callback(functools.partial(self._ended_later, cycle), context=self._context)

    def _ended_later(self, cycle: Cycle, task: asyncio.Task[None]) -> None:
        self.server_state.tasks.discard(task)
        self._ended(cycle, task)

    def _ended(self, cycle: Cycle, task: asyncio.Task[None]) -> None:
        """Finish a request. uvicorn's own code handles errors."""
        if cycle.response_complete and not task.cancelled() and task.exception() is None:
            return
        own = cycle.run_asgi(lambda *_: task)
        ending = EagerTask(own, loop=self.loop, context=self._context.copy(), eager_start=True)
        if not ending.done():
            self.server_state.tasks.add(ending)
            ending.add_done_callback(self.server_state.tasks.discard)

    def on_response_complete(self) -> None:
        """Continue with the data that the client has sent, or wait for its next request."""
        self.server_state.total_requests += 1
        self._active = None
        self._idle_since = self.loop.time()
        reader = self.reader
        if reader.head_since is not None:  # the time limit starts again, because the server did not read
            reader.head_since = self._idle_since
        # After most responses there is nothing more to do, and `is_closing` need not be asked.
        if not (reader.unparsed or reader.waiting or reader.discarding or self.flow.read_paused) or self.is_closing:
            return
        if reader.has_more:
            self._go_on_later()
        elif reader.discarding:  # the data after the request was not valid HTTP
            self.linger()
        elif self.flow.read_paused:
            self.flow.resume_reading()

    def refuse(self, status: str, text: str, *headers: str) -> None:
        """Refuse a request without the app, after the answers to earlier requests, and close the connection."""
        reader = self.reader
        reader.unparsed = b""
        cycle = reader.latest
        if cycle is not None and not cycle.response_complete:
            if cycle is not self._active and cycle.more_body:
                reader.waiting.pop()  # the body of this request never arrives
            elif cycle.more_body and not cycle.response_started:
                cycle.abandon()
                self._active = None
            if self._active is not None or reader.waiting:
                reader.discarding = self._retiring = True
                return
        elif cycle is not None and cycle.more_body:  # the invalid data is the rest of an answered request
            self.linger()
            return
        body = f"{text}\n".encode()
        head = (
            f"HTTP/1.1 {status}",
            f"x-served-by: {self._connections.replica}",
            f"x-request-id: {secrets.token_hex(4)}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(body)}",
            *headers,
            "connection: close",
        )
        self.turn.flush()
        self.transport.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        self.linger()
