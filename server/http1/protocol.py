"""A connection of HTTP/1.1: what comes is read by httptools, and answered by the app within this server's limits."""

import asyncio
import contextvars
import functools
import logging
import secrets
import socket
import struct
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl

from server import config, eager
from server.http1.connections import KEY, Connections
from server.http1.cycle import Cycle
from server.http1.limits import Limits
from server.http1.turn import turn_of
from server.middleware.headers import HEADERS
from server.replica import name_of

if TYPE_CHECKING:
    from uvicorn._types import ASGIVersions
    from uvicorn.config import Config
    from uvicorn.server import ServerState

logger = logging.getLogger("uvicorn.error")

_LINGER_SECONDS = 2.0
"""Time for a caller to read its answer while it still sends what nobody will read."""

_STUCK_SECONDS = 1.0
"""Time after which a connection whose client takes nothing of its reply may make room for another."""

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time to linger (socket(7))."""

_SLICE = 2048
"""Bytes that are parsed at once. The shortest request has 25, so that 82 requests of a connection wait at most."""

_FEW_DIGITS = 3
"""Digits of a body's length that is within a slice anyway."""

_MOST_HEADERS = 100
"""Header fields of a request, as Apache and gunicorn have it; each takes much more memory than its bytes."""

_ASGI: "ASGIVersions" = {"version": "3.0", "spec_version": "2.3"}

_SHORT_URL = 64
"""Bytes of a URL that is worth remembering; nearly all are `/mcp`."""


class _RefusedError(Exception):
    """Ends the parser's work on a request; what its caller is told stands in `HttpProtocol._refusal`."""


_BAD = "400 Bad Request", "Invalid HTTP request received."
_TOO_LONG = "431 Request Header Fields Too Large", "The request's head is too long."
_TOO_MANY = _TOO_LONG[0], f"The request has more than {_MOST_HEADERS} header fields."
_HOST = _BAD[0], "Send exactly one Host header (RFC 9112, section 3.2)."


@functools.lru_cache(maxsize=64)
def _split(url: bytes) -> tuple[str, bytes, bytes]:
    """A URL's path, as text without escapes and as it came, and its query."""
    parsed = httptools.parse_url(url)
    return unquote(parsed.path.decode("ascii")), parsed.path, parsed.query or b""


def _nothing() -> None:
    """In place of what has been done."""


@functools.cache
def _replica() -> str:
    return name_of(config.load())


class HttpProtocol(asyncio.Protocol):
    """A connection, held to `Limits`; uvicorn makes one for each.

    A connection ends after its share of requests or of time, or when the replica drains, with a response that says so
    (`Connection: close`), so that no request is lost. One whose request's head is too long (431), too slow (408) or
    wrong (400) is refused; so is one too many (503) if no other can make room. One whose client takes nothing of its
    reply is cut.

    Requests of one connection are answered one after the other, each in a later turn of the event loop than the one
    before, so that a connection that sends many at once holds up no other. Nothing is read from it meanwhile.
    """

    _framing_only = False
    """Whether the parser is given a head for the second time, for the sake of the body."""
    _refusal: tuple[str, str] | None = None
    """What is wrong with a request that the parser itself would take: a status of HTTP, and a text for the caller."""
    _lingers_until: float | None = None
    """Time at which a connection is cut whose last response has been sent."""
    _retiring = False
    _deaf = False
    """Whether what comes is thrown away."""
    unsent = 0
    """Bytes that waited for the client when the connection was looked at."""
    unsent_since = 0.0
    """Time at which the client last took some of them."""

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        # Python finds attributes faster if the first thing that happens to an object is that all are set, and they
        # are at most 30. Those above are seldom set.
        self.app: Any = config.loaded_app
        self.loop = _loop or asyncio.get_running_loop()
        self.server_state = server_state
        self.turn = turn_of(self.loop)
        self._connections: Connections = app_state[KEY]
        self._limits: Limits = self._connections.limits
        self._app_state = app_state
        self._keep_alive: float = config.timeout_keep_alive
        self._context = contextvars.copy_context()  # which no request has touched
        self._scope: dict[str, Any] = {}
        """What stands in the scope of each request of this connection."""
        self._active: Cycle | None = None
        """The request that is being answered."""
        self._waiting: deque[Cycle] = deque()
        """Those behind it that have come."""
        self._latest: Cycle | None = None
        """The one whose head was read last."""
        self._unparsed = b""
        """What has come behind that."""
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_head = False
        """Whether a request has begun whose head is not whole."""
        self._head_since: float | None = None
        """Time at which a part of a request's head came that is not yet whole."""
        self._head_size = 0
        self._missing = 0
        """Bytes of the body that is arriving which have not come, as far as its head says."""
        now = self._idle_since = self.loop.time()
        """Time of the loop at which the connection began to wait for a request."""
        self._retires_at = now + self._limits.share_of_age()
        self._requests_left = self._first_left = self._limits.share_of_requests()
        self.transport: asyncio.Transport
        self.flow: FlowControl

    @property
    def leaving(self) -> bool:
        """Whether the next response is to be the last.

        The last of its share of requests is; any other only if no request waits that has been read already.
        """
        return not self._requests_left or ((self._retiring or self._connections.draining) and not self._waiting)

    @property
    def is_leaving(self) -> bool:
        """Whether the connection is being closed."""
        return self._lingers_until is not None or self.transport.is_closing()

    @property
    def has_more(self) -> bool:
        """Whether the client has sent more than has been answered."""
        return bool(self._unparsed or self._waiting)

    @property
    def compresses_from(self) -> float:
        """Bytes from which on a response may be made smaller."""
        return self._limits.compresses_from

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection."""
        self.transport = cast("asyncio.Transport", transport)
        self.flow = FlowControl(self.transport)
        self.server_state.connections.add(cast("Any", self))
        self._scope.update(
            type="http",
            asgi=_ASGI,
            server=get_local_addr(self.transport),
            client=get_remote_addr(self.transport),
            scheme="https" if is_ssl(self.transport) else "http",
            root_path="",
        )
        self._connections.add(self, self.loop)

    def rank(self, now: float) -> tuple[int, float] | None:
        """How well the connection can be missed, the smallest first; None if not at all."""
        if self.is_leaving:
            return None
        if self.unsent and self.unsent_since < now - _STUCK_SECONDS:
            return 0, self.unsent_since
        if self._active is not None:
            return None
        if self.has_more:  # than one connection's share, if there are so many
            return 3, self._retires_at
        return (1, self._idle_since) if self._head_since is None else (2, self._head_since)

    def make_room(self) -> None:
        """End the connection for the sake of another."""
        self.turn.flush()
        if self.transport.get_write_buffer_size():  # to close it would wait until that has been taken
            self.cut()
        else:
            self.transport.close()

    def refuse_for_want_of_room(self) -> None:
        """Tell a new client that there are too many."""
        text = f"Connection limit reached (MAX_CONNECTIONS={self._limits.connections}); retry later."
        self.refuse("503 Service Unavailable", text, "retry-after: 1")

    def look(self, now: float) -> None:
        """Close the connection if something takes too long; let it end if it is old."""
        if self._lingers_until is not None:
            if self._lingers_until < now:
                self.cut()
        elif self._takes_nothing(now):
            self.cut()
        elif self._head_since is not None and self._head_since < now - self._limits.receive:
            self.refuse("408 Request Timeout", "The request's head took too long to arrive.")
        elif self._active is None and not self.has_more and self._idle_since < now - self._keep_alive:
            self.transport.close()
        elif self._retires_at < now:
            self._retiring = True

    def _takes_nothing(self, now: float) -> bool:
        """Whether the client has not taken a byte of what waits for it for too long."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or not self.unsent or unsent < self.unsent:
            self.unsent_since = now
        self.unsent = unsent
        return self.unsent_since < now - self._limits.send

    def pause_writing(self) -> None:
        """Note that the client takes less than is sent to it."""
        self.flow.pause_writing()
        self.unsent = self.transport.get_write_buffer_size()
        self.unsent_since = self.loop.time()
        self._connections.hold(self)

    def resume_writing(self) -> None:
        """Go on: the client has taken what waited for it."""
        self.flow.resume_writing()
        self._connections.release(self)
        self._go_on_later()

    def data_received(self, data: bytes) -> None:
        """Take data."""
        if not self._deaf:
            self._unparsed = self._unparsed + data if self._unparsed else data
            self._go_on()

    def _go_on_later(self) -> None:
        if self.has_more:
            self.loop.call_soon(self._go_on, context=self._context)

    def _go_on(self) -> None:
        """Parse what has come up to the next request, and begin to answer that."""
        self._parse_on()
        if self._waiting and self._active is None and not self.flow.write_paused and not self.is_leaving:
            self._start(self._waiting.popleft())
            self._parse_on()
        if self._unparsed:
            self.flow.pause_reading()

    def _parse_on(self) -> None:
        """Parse until a request has come as a whole that can't be begun yet."""
        while self._unparsed and (self._body_comes() or not (self._active or self._waiting)):
            size = max(_SLICE, self._missing)
            data, self._unparsed = self._unparsed[:size], self._unparsed[size:]
            self._parse(data)

    def _body_comes(self) -> bool:
        return self._latest is not None and self._latest.more_body

    def read_on(self) -> None:
        """Read from the client again, unless there is enough to do."""
        if not self._unparsed:
            self.flow.resume_reading()

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            # The exception itself isn't kept, or it would make a cycle with this frame.
            if self._refusal is None:
                logger.warning("Invalid HTTP request received.")
            self.refuse(*(self._refusal or _BAD))
        if self._in_head and not self._deaf:
            self._has_part_of_head(len(data))

    def _has_part_of_head(self, size: int) -> None:
        if self._head_since is None:  # it began somewhere in these bytes: they aren't counted
            self._head_since, self._head_size = self.loop.time(), 0
        else:
            self._head_size += size
        if self._head_size > self._limits.head:
            self.refuse(*_TOO_LONG)
        elif len(self._headers) > _MOST_HEADERS:
            self.refuse(*_TOO_MANY)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Answer a request that asks for another protocol as if it didn't (RFC 9110, section 7.8).

        The parser has left off behind the head, as the other protocol would begin there. A new one is told of the
        body by the headers that frame it.
        """
        framing = [(name, value) for name, value in self._headers if name in (b"content-length", b"transfer-encoding")]
        if framing:
            self._parser = httptools.HttpRequestParser(self)
            self._framing_only = True
            lines = [b"%b: %b\r\n" % each for each in framing]
            self._parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(lines) + b"\r\n")
            self._framing_only = self._in_head = False
        self._unparsed = rest + self._unparsed

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._url = b""
        self._headers = []
        self._in_head = True
        self._head_size = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the URL."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._headers.append((name.lower(), value))

    def _end_parsing(self, refusal: tuple[str, str]) -> NoReturn:
        self._refusal = refusal
        raise _RefusedError

    def on_headers_complete(self) -> None:
        """Make a request's scope and its cycle; as uvicorn does without WebSockets."""
        if self._framing_only:
            return
        self._in_head = False
        self._head_since = None
        if self._head_size + 2 * _SLICE > self._limits.head and self._length_of_head() > self._limits.head:
            self._end_parsing(_TOO_LONG)
        parser, pairs = self._parser, self._headers
        headers = dict(pairs)
        if len(pairs) > _MOST_HEADERS:
            self._end_parsing(_TOO_MANY)
        keep_alive = parser.should_keep_alive()
        # Without being asked for it only HTTP/1.1 keeps a connection (RFC 9112, section 9.3); to ask takes longer.
        version = "1.1" if keep_alive and b"connection" not in headers else parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in pairs) if len(headers) != len(pairs) else b"host" in headers
        if hosts != 1 and (hosts or version != "1.0"):
            self._end_parsing(_HOST)
        length = headers.get(b"content-length", b"")
        self._missing = int(length) if len(length) > _FEW_DIGITS else 0
        expects_100 = b"expect" in headers and headers[b"expect"].lower() == b"100-continue"
        path, raw_path, query = _split(self._url) if len(self._url) < _SHORT_URL else _split.__wrapped__(self._url)
        scope: dict[str, Any] = self._scope.copy()
        scope["http_version"] = version
        scope["method"] = parser.get_method().decode("ascii")
        scope["path"], scope["raw_path"], scope["query_string"] = path, raw_path, query
        scope["headers"] = pairs
        scope["state"] = self._app_state.copy()
        if len(headers) == len(pairs):
            scope[HEADERS] = headers
        self._latest = Cycle(self, scope, keep_alive=version != "1.0" and keep_alive, expects_100=expects_100)
        self._waiting.append(self._latest)

    def _length_of_head(self) -> int:
        """Bytes of a head that has come as a whole, but for its first line's method and version."""
        return len(self._url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self._headers)

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        cycle = self._latest
        if cycle is not None and not cycle.response_complete:
            cycle.body += body
            cycle.message_event.set()
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
        if self._missing:
            self._missing -= len(body)

    def on_message_complete(self) -> None:
        """End a request; one that asks for another protocol has its body to come."""
        cycle = self._latest
        if cycle is None or (self._parser.should_upgrade() and self._is_framed()):
            return
        self._missing = 0
        cycle.more_body = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._deaf = True

    def _is_framed(self) -> bool:
        return any(name in (b"content-length", b"transfer-encoding") for name, _ in self._headers)

    def cut(self) -> None:
        """End the connection at once, with all that its client hasn't taken.

        Without a reset the kernel would keep that for as long as the client doesn't read.
        """
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            with suppress(OSError):  # it is closed already
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def linger(self) -> None:
        """Close the connection in a way that lets the caller read its answer although it has not sent everything.

        Closing at once would send a reset, which may overtake the answer (RFC 9112, section 9.6).
        """
        self.turn.flush()
        self._deaf = True
        self._unparsed = b""
        self._waiting.clear()
        if not self.transport.can_write_eof():  # TLS
            self.transport.close()
            return
        self._lingers_until = self.loop.time() + _LINGER_SECONDS
        self.flow.resume_reading()
        self.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        for cycle in (self._active, self._latest):
            if cycle is not None:
                cycle.abandon()
        self._unparsed = b""
        self._waiting.clear()
        self.server_state.connections.discard(cast("Any", self))
        self._connections.remove(self, self._first_left - self._requests_left)
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self._latest = self._active = None  # which hold the connection, as the parser does: no cycle is left
        del self._parser

    def shutdown(self) -> None:
        """Close the connection when it has been answered; uvicorn calls it when it stops."""
        self.turn.flush()
        if self._latest is None or self._latest.response_complete:
            self.transport.close()
        else:
            self._latest.keep_alive = False

    def _start(self, cycle: Cycle) -> None:
        """Answer a request when the loop has read from all connections: so replies are written together, too."""
        self._active = cycle
        self._requests_left -= 1
        self.turn.start(self._answer)

    def _answer(self) -> None:
        """Run the app for a request, in a context that no other request has touched."""
        cycle = self._active
        if cycle is None:  # the connection was lost meanwhile
            return
        running: Any = self.app(cycle.scope, cycle.receive, cycle.send)
        task: asyncio.Task[None] = eager.start(running, self.loop, self._context.copy())
        if task.done():
            self._ended(cycle, task)
        else:
            self.server_state.tasks.add(task)
            task.add_done_callback(functools.partial(self._ended, cycle), context=self._context)

    def _ended(self, cycle: Cycle, task: asyncio.Task[None]) -> None:
        """Look at a request's end; uvicorn does at one that isn't the usual one."""
        self.server_state.tasks.discard(task)
        if cycle.response_complete and not task.cancelled() and task.exception() is None:
            cycle.on_response = _nothing  # which held the connection
            return
        looking = eager.start(cycle.run_asgi(lambda *_: task), self.loop, self._context.copy())
        if not looking.done():
            self.server_state.tasks.add(looking)
            looking.add_done_callback(self.server_state.tasks.discard)

    def on_response_complete(self) -> None:
        """Go on with what the client has sent meanwhile, or wait for its next request."""
        self.server_state.total_requests += 1
        self._active = None
        if self.is_leaving:
            return
        self._idle_since = self.loop.time()
        if self.has_more:
            self._go_on_later()
        elif self._deaf:  # what came behind the request was no HTTP
            self.linger()
        else:
            self.flow.resume_reading()

    def refuse(self, status: str, text: str, *headers: str) -> None:
        """Answer what no app gets to see, and close the connection; after the answers that others wait for."""
        self._unparsed = b""
        cycle = self._latest
        if cycle is not None and not cycle.response_complete:
            if cycle is not self._active and cycle.more_body:
                self._waiting.pop()  # it never gets its body
            elif cycle.more_body and not cycle.response_started:
                cycle.abandon()
                self._active = None
            if self._active is not None or self._waiting:
                self._deaf = self._retiring = True
                return
        elif cycle is not None and cycle.more_body:  # the rest of a request that has been answered
            self.linger()
            return
        body = f"{text}\n".encode()
        head = (
            f"HTTP/1.1 {status}",
            f"x-served-by: {_replica()}",
            f"x-request-id: {secrets.token_hex(4)}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(body)}",
            *headers,
            "connection: close",
        )
        self.turn.flush()
        self.transport.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        self.linger()
