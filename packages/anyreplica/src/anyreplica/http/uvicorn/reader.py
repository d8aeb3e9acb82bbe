"""Read the requests of a connection, one after the other, with httptools."""

import asyncio
import functools
import logging
from collections import deque
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from anyreplica.http.request_record import RECORD, HeadFacts, RequestRecord, new_record
from anyreplica.http.uvicorn.cycle import Cycle, CycleConnection, UnchunkedCycle

logger = logging.getLogger("uvicorn.error")

SLICE = 2048
"""Number of bytes that are parsed in one step. The shortest request has 25 bytes, so at most 82 requests of a
connection wait."""

_SLICES = 4
"""Number of slices that are parsed before another connection gets its turn. This takes half a millisecond if each chunk
of a body has one byte."""

_MOST_HEADERS = 100
"""Maximum number of header fields of a request, as in Apache and gunicorn. The objects of a field
need much more memory than its bytes."""

_SHORT_URL = 64
"""Maximum size of a URL that is cached, in bytes. Nearly all URLs are `/mcp`."""

_END = b"\r\n\r\n"
"""The end of a head."""

_MOST_KNOWN = 512
"""Maximum number of heads that a replica remembers. A head and what belongs to it take at most about 8 KiB."""

_MOST_LEARNT = 16
"""Maximum number of heads that a replica remembers from one connection, so that no client displaces those of others."""

_NEVER_KNOWN = frozenset({b"expect", b"transfer-encoding", b"upgrade"})
"""Headers that change how the connection goes on. The parser must see each request that has one of them."""

_BAD = "400 Bad Request", "Invalid HTTP request received."
_TOO_LARGE = "431 Request Header Fields Too Large"
_TOO_MANY = _TOO_LARGE, f"Request head too large: the limit is {_MOST_HEADERS} header fields."
_HOST = _BAD[0], "Invalid HTTP request: send exactly one Host header (RFC 9112, section 3.2)."


_OF_HEAD = ("http_version", "method", "path", "raw_path", "query_string", "headers")
"""The keys of the ASGI scope that follow from the head."""


class _RefusedError(Exception):
    """An exception that stops the parser. `Reader._refusal` has the error for the client."""


class KnownHead:
    """What the parser made of a head. A request whose head has the same bytes needs no parser."""

    __slots__ = ("facts", "scope", "size")

    def __init__(self, scope: dict[str, Any], facts: HeadFacts, size: int) -> None:
        self.scope = scope
        """The part of the ASGI scope that follows from the head."""
        self.facts = facts
        self.size = size
        """Number of bytes of the whole request: of the head and, by its Content-Length, of the body."""


@functools.lru_cache(maxsize=64)
def _split(url: bytes) -> tuple[str, bytes, bytes]:
    """Return the unescaped path of a URL, its raw path, and its query."""
    parsed = httptools.parse_url(url)
    return unquote(parsed.path.decode("ascii")), parsed.path, parsed.query or b""


class ReaderConnection(CycleConnection, Protocol):
    """What a `Reader` needs of its connection. `HttpProtocol` has it."""

    loop: asyncio.AbstractEventLoop

    def refuse(self, status: str, text: str, *headers: str) -> None: ...


class Reader:
    """A parser that makes a `Cycle` of each request of a connection. httptools calls the methods that begin with `on_`.

    The reader refuses an invalid request and a request with a head of more than `longest` bytes. It discards all data
    after such a request. `scope` has the common part of the ASGI scopes of all requests. Each scope gets a copy of the
    app's `state`. `known` has the heads that the replica remembers, by their bytes up to the empty line.
    """

    discarding = False
    """Whether the server discards all further data."""
    _framing_only = False
    """Whether the parser reads the framing headers a second time to find the end of the body."""
    _refusal: tuple[str, str] | None = None
    """The error of a request that httptools would accept: an HTTP status, and a text for the client."""

    def __init__(
        self,
        connection: ReaderConnection,
        longest: int,
        scope: dict[str, Any],
        state: dict[str, Any],
        known: dict[bytes, KnownHead],
    ) -> None:
        # `HttpProtocol.__init__` says why all attributes are set here, except the rarely changed ones above.
        self._connection = connection
        self._longest = longest
        self._scope = scope
        self._state = state
        self._parser = httptools.HttpRequestParser(self)
        self.latest: Cycle | None = None
        """The request with the last complete head."""
        self.waiting: deque[Cycle] = deque()
        """Received requests that wait for their turn."""
        self.unparsed = b""
        """Received bytes that are not parsed yet."""
        self.head_since: float | None = None
        """Time of the event loop at which the first part of an incomplete head arrived."""
        self._in_head = False
        """Whether a request has begun and its head is incomplete."""
        self._head_size = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._missing = 0
        """Number of bytes of the body that have not arrived, according to Content-Length."""
        self._known = known
        self._may_learn = _MOST_LEARNT
        self._repeated: KnownHead | None = None
        """The last known head of this connection, and the scope that follows from both."""
        self._repeated_scope = scope

    @property
    def has_more(self) -> bool:
        """Whether the client has sent more than the request that the server answers now."""
        return bool(self.waiting or (self.unparsed and not self._body_comes()))

    def is_late(self, since: float) -> bool:
        """Return whether the head is incomplete and began before `since`, and all received data is parsed."""
        return self.head_since is not None and self.head_since < since and not self.unparsed

    @property
    def has_room(self) -> bool:
        """Whether the server can read more: the app has read most of the received body, or has already answered."""
        latest = self.latest
        return latest is None or latest.response_complete or len(latest.body) <= HIGH_WATER_LIMIT

    def can_read(self, *, busy: bool) -> bool:
        """Return whether the reader can parse more now. `busy`: the server answers a request of this connection."""
        return bool(self.unparsed) and (self._body_comes() or not (busy or self.waiting))

    def read(self, *, busy: bool) -> None:
        """Parse a part of the received data. Stop when a whole request waits for its turn."""
        for _ in range(_SLICES):
            if not self.can_read(busy=busy):
                break
            size = max(SLICE, self._missing)
            data, self.unparsed = self.unparsed[:size], self.unparsed[size:]
            self._parse(data)

    def repeated(self, data: bytes) -> Cycle | None:
        """Return the request in `data` if it is whole, is the next one, and has a known head. Otherwise return None.

        The connection must have no request that waits or that the app answers, and so none whose body still comes.
        """
        end = data.find(_END) + len(_END)
        known = self._known.get(data[:end])
        if known is None or known.size != len(data) or self._in_head or self.unparsed:
            return None
        if known is not self._repeated:
            self._repeated, self._repeated_scope = known, self._scope | known.scope
        scope = self._repeated_scope.copy()
        scope["headers"] = known.scope["headers"].copy()
        scope["state"] = self._state.copy()
        record = scope[RECORD] = RequestRecord()  # as `new_record` makes it, without one more call
        record.headers, record.facts = known.facts.headers, known.facts
        record.caller = record.notes = None
        record.called = record.path = ()
        cycle = self.latest = Cycle(self._connection, scope, data[end:])
        cycle.more_body = False
        cycle.has_news = True
        return cycle

    def _learn(self, data: bytes, cycle: Cycle) -> None:
        """Remember the head of a request, if `data` is the whole request and the connection goes on after it."""
        end = data.find(_END) + len(_END)
        own: Any = cycle.scope
        record: RequestRecord | None = own.get(RECORD)  # None: a header occurs twice
        if cycle.more_body or not cycle.keep_alive or len(data) - end != len(cycle.body) or record is None:
            return
        if not record.headers.keys().isdisjoint(_NEVER_KNOWN):
            return
        self._may_learn -= 1
        if len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[data[:end]] = KnownHead({key: own[key] for key in _OF_HEAD}, HeadFacts(record.headers), len(data))

    def stop(self) -> None:
        """Discard the received data and all further data."""
        self.discarding = True
        self.unparsed = b""
        self.waiting.clear()

    def close(self) -> None:
        """Delete the references to the ended connection, so that no reference cycle remains."""
        self.stop()
        self.latest = None
        del self._parser, self._connection

    def _body_comes(self) -> bool:
        return self.latest is not None and self.latest.more_body

    def _parse(self, data: bytes) -> None:
        learns = self._may_learn and not (self._in_head or self.unparsed or self._body_comes())
        before = self.latest
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            # The exception gets no name: otherwise the exception and this frame would refer to each other.
            if self._refusal is None:
                logger.warning("Invalid HTTP request received.")
            self._connection.refuse(*(self._refusal or _BAD))
            return
        if learns and self.latest is not None and self.latest is not before:
            self._learn(data, self.latest)
        if self._in_head and not self.discarding:
            self._has_part_of_head(len(data))

    def _has_part_of_head(self, size: int) -> None:
        if self.head_since is None:  # the head began somewhere in these bytes, so they do not count
            self.head_since, self._head_size = self._connection.loop.time(), 0
        else:
            self._head_size += size
        if self._head_size > self._longest:
            self._connection.refuse(*self._too_long())
        elif len(self._headers) > _MOST_HEADERS:
            self._connection.refuse(*_TOO_MANY)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Ignore the Upgrade header of a request (RFC 9110, section 7.8).

        The parser has stopped after the head, because the other protocol would begin there. So a new parser continues
        with the body, if the request has one. The new parser first reads the headers that define the end of the body.
        """
        if framing := self._framing():
            self._parser = httptools.HttpRequestParser(self)
            self._framing_only = True
            lines = [b"%b: %b\r\n" % each for each in framing]
            try:
                self._parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(lines) + b"\r\n")
            finally:
                self._framing_only = self._in_head = False
        self.unparsed = rest + self.unparsed

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._in_head = True
        self._head_size = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def _end_parsing(self, refusal: tuple[str, str]) -> NoReturn:
        self._refusal = refusal
        raise _RefusedError

    def on_headers_complete(self) -> None:
        """Create the scope and the cycle of a request, as uvicorn does."""
        if self._framing_only:
            return
        self._in_head = False
        self.head_since = None
        if self._head_size + 2 * SLICE > self._longest and self._length_of_head() > self._longest:
            self._end_parsing(self._too_long())
        parser, pairs = self._parser, self._headers
        headers = dict(pairs)
        if len(pairs) > _MOST_HEADERS:
            self._end_parsing(_TOO_MANY)
        keep_alive = parser.should_keep_alive()
        # Without a Connection header, only HTTP/1.1 keeps the connection (RFC 9112, section 9.3). This test is faster
        # than a call of `get_http_version`.
        version = "1.1" if keep_alive and b"connection" not in headers else parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in pairs) if len(headers) != len(pairs) else b"host" in headers
        if hosts != 1 and (hosts or version != "1.0"):
            self._end_parsing(_HOST)
        self._missing = int(headers.get(b"content-length", 0))
        expects_100 = b"expect" in headers and headers[b"expect"].lower() == b"100-continue"
        path, raw_path, query = _split(self._url) if len(self._url) < _SHORT_URL else _split.__wrapped__(self._url)
        scope: dict[str, Any] = self._scope.copy()
        scope["http_version"] = version
        scope["method"] = parser.get_method().decode("ascii")
        scope["path"], scope["raw_path"], scope["query_string"] = path, raw_path, query
        scope["headers"] = pairs
        scope["state"] = self._state.copy()
        if len(headers) == len(pairs):
            scope[RECORD] = new_record(headers)
        if version == "1.0":
            self.latest = UnchunkedCycle(
                self._connection, scope, bytearray(), keep_alive=False, expects_100=expects_100
            )
        else:
            self.latest = Cycle(self._connection, scope, bytearray(), keep_alive=keep_alive, expects_100=expects_100)
        self.waiting.append(self.latest)

    def _too_long(self) -> tuple[str, str]:
        return _TOO_LARGE, f"Request head too large: the limit is {self._longest} bytes (MAX_HEAD_BYTES)."

    def _length_of_head(self) -> int:
        """Return the size of a complete head in bytes, without the method and the version in its first line."""
        return len(self._url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self._headers)

    def on_body(self, body: bytes) -> None:
        cycle = self.latest
        if cycle is not None and not cycle.response_complete:
            cycle.body += body
            cycle.notify()
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self._connection.flow.pause_reading()
        if self._missing:
            self._missing -= len(body)

    def on_message_complete(self) -> None:
        """End a request. For a request with an Upgrade header and a body, httptools calls this again after the body."""
        cycle = self.latest
        if cycle is None or (self._parser.should_upgrade() and self._framing()):
            return
        self._missing = 0
        cycle.more_body = False
        cycle.notify()
        if not cycle.keep_alive:
            self.discarding = True

    def _framing(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that define the end of the body."""
        return [(name, value) for name, value in self._headers if name in (b"content-length", b"transfer-encoding")]
