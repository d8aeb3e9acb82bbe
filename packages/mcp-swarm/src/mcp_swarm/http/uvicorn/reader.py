"""What a client sends: requests, read one after the other by httptools."""

import functools
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from mcp_swarm.http.headers import HEADERS
from mcp_swarm.http.uvicorn.cycle import Cycle

if TYPE_CHECKING:
    from mcp_swarm.http.uvicorn.protocol import HttpProtocol

logger = logging.getLogger("uvicorn.error")

SLICE = 2048
"""Bytes that are parsed in one step. The shortest request has 25 bytes: at most 82 requests of a connection wait."""

_SLICES = 4
"""Slices that are parsed before it is another connection's turn: half a millisecond if each chunk has one byte."""

_MOST_HEADERS = 100
"""Header fields of a request, as Apache and gunicorn have it; each takes much more memory than its bytes."""

_SHORT_URL = 64
"""Bytes of a URL that is worth remembering; nearly all are `/mcp`."""

_BAD = "400 Bad Request", "Invalid HTTP request received."
_TOO_LONG = "431 Request Header Fields Too Large", "The request's head is too long."
_TOO_MANY = _TOO_LONG[0], f"The request has more than {_MOST_HEADERS} header fields."
_HOST = _BAD[0], "Send exactly one Host header (RFC 9112, section 3.2)."


class _RefusedError(Exception):
    """Stops the parser; `Reader._refusal` is what the caller is told."""


@functools.lru_cache(maxsize=64)
def _split(url: bytes) -> tuple[str, bytes, bytes]:
    """A URL's path without escapes, its path as it came, and its query."""
    parsed = httptools.parse_url(url)
    return unquote(parsed.path.decode("ascii")), parsed.path, parsed.query or b""


class Reader:
    """Makes a `Cycle` of each request of a connection; httptools calls the methods that begin with `on_`.

    A request that is wrong, or whose head has more than `longest` bytes, is refused, and all that comes after it is
    thrown away. `scope` is what the ASGI scopes of all requests have in common; each gets a copy of the app's `state`.
    """

    deaf = False
    """Whether the server throws away what comes."""
    _framing_only = False
    """Whether the parser reads a head a second time, so that it finds the end of the body."""
    _refusal: tuple[str, str] | None = None
    """What is wrong with a request that the parser itself would accept: an HTTP status, and a text for the caller."""

    def __init__(self, connection: "HttpProtocol", longest: int, scope: dict[str, Any], state: dict[str, Any]) -> None:
        # All attributes but those above, which are seldom set: see `HttpProtocol.__init__`.
        self._connection = connection
        self._longest = longest
        self._scope = scope
        self._state = state
        self._parser = httptools.HttpRequestParser(self)
        self.latest: Cycle | None = None
        """The request whose head was read last."""
        self.waiting: deque[Cycle] = deque()
        """Requests that have come and are not being answered yet."""
        self.unparsed = b""
        """Bytes that have come and are not parsed yet."""
        self.head_since: float | None = None
        """Time at which the first part of an incomplete head came."""
        self._in_head = False
        """Whether a request has begun whose head is incomplete."""
        self._head_size = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._missing = 0
        """Bytes of the body that have not come, as its Content-Length says."""

    @property
    def has_more(self) -> bool:
        """Whether the client has sent more than the request that is being answered."""
        return bool(self.waiting or (self.unparsed and not self._body_comes()))

    def is_late(self, since: float) -> bool:
        """Whether an incomplete head began before a time, and no more of it waits to be parsed."""
        return self.head_since is not None and self.head_since < since and not self.unparsed

    @property
    def has_room(self) -> bool:
        """Whether more may come: the app has read most of the body so far, or has answered without it."""
        latest = self.latest
        return latest is None or latest.response_complete or len(latest.body) <= HIGH_WATER_LIMIT

    def can_read(self, *, busy: bool) -> bool:
        """Whether there is more to parse now. `busy`: the connection answers a request."""
        return bool(self.unparsed) and (self._body_comes() or not (busy or self.waiting))

    def read(self, *, busy: bool) -> None:
        """Parse a part of what has come, at most up to a whole request that must wait for the one before."""
        for _ in range(_SLICES):
            if not self.can_read(busy=busy):
                break
            size = max(SLICE, self._missing)
            data, self.unparsed = self.unparsed[:size], self.unparsed[size:]
            self._parse(data)

    def stop(self) -> None:
        """Throw away what has come and what will come."""
        self.deaf = True
        self.unparsed = b""
        self.waiting.clear()

    def close(self) -> None:
        """Forget the connection, which has ended, so that no reference cycle is left."""
        self.stop()
        self.latest = None
        del self._parser, self._connection

    def _body_comes(self) -> bool:
        return self.latest is not None and self.latest.more_body

    def _parse(self, data: bytes) -> None:
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            # No name for the exception: it and this frame would refer to each other.
            if self._refusal is None:
                logger.warning("Invalid HTTP request received.")
            self._connection.refuse(*(self._refusal or _BAD))
        if self._in_head and not self.deaf:
            self._has_part_of_head(len(data))

    def _has_part_of_head(self, size: int) -> None:
        if self.head_since is None:  # it began somewhere in these bytes, so they aren't counted
            self.head_since, self._head_size = self._connection.loop.time(), 0
        else:
            self._head_size += size
        if self._head_size > self._longest:
            self._connection.refuse(*_TOO_LONG)
        elif len(self._headers) > _MOST_HEADERS:
            self._connection.refuse(*_TOO_MANY)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Answer a request that asks for another protocol as if it didn't (RFC 9110, section 7.8).

        The parser has stopped after the head, because the other protocol would begin there. So a new parser continues
        with the body. It first reads the headers that tell where the body ends.
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
        """Make a request's scope and its cycle, as uvicorn does."""
        if self._framing_only:
            return
        self._in_head = False
        self.head_since = None
        if self._head_size + 2 * SLICE > self._longest and self._length_of_head() > self._longest:
            self._end_parsing(_TOO_LONG)
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
            scope[HEADERS] = headers
        self.latest = Cycle(
            self._connection, scope, keep_alive=version != "1.0" and keep_alive, expects_100=expects_100
        )
        self.waiting.append(self.latest)

    def _length_of_head(self) -> int:
        """Bytes of a head that has come as a whole, but for its first line's method and version."""
        return len(self._url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self._headers)

    def on_body(self, body: bytes) -> None:
        cycle = self.latest
        if cycle is not None and not cycle.response_complete:
            cycle.body += body
            cycle.message_event.set()
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self._connection.flow.pause_reading()
        if self._missing:
            self._missing -= len(body)

    def on_message_complete(self) -> None:
        """End a request. If it asks for another protocol and has a body, this is called again after the body."""
        cycle = self.latest
        if cycle is None or (self._parser.should_upgrade() and self._framing()):
            return
        self._missing = 0
        cycle.more_body = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.deaf = True

    def _framing(self) -> list[tuple[bytes, bytes]]:
        """The headers that tell where the body ends."""
        return [(name, value) for name, value in self._headers if name in (b"content-length", b"transfer-encoding")]
