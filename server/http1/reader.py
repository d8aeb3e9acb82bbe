"""What a client sends: requests, read one after the other by httptools."""

import functools
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from server.http1.cycle import Cycle
from server.middleware.headers import HEADERS

if TYPE_CHECKING:
    from server.http1.protocol import HttpProtocol

logger = logging.getLogger("uvicorn.error")

_SLICE = 2048
"""Bytes that are parsed at once. The shortest request has 25, so that 82 requests of a connection wait at most."""

_FEW_DIGITS = 3
"""Digits of a body's length that is within a slice anyway."""

_MOST_HEADERS = 100
"""Header fields of a request, as Apache and gunicorn have it; each takes much more memory than its bytes."""

_SHORT_URL = 64
"""Bytes of a URL that is worth remembering; nearly all are `/mcp`."""

_BAD = "400 Bad Request", "Invalid HTTP request received."
_TOO_LONG = "431 Request Header Fields Too Large", "The request's head is too long."
_TOO_MANY = _TOO_LONG[0], f"The request has more than {_MOST_HEADERS} header fields."
_HOST = _BAD[0], "Send exactly one Host header (RFC 9112, section 3.2)."


class _RefusedError(Exception):
    """Ends the parser's work on a request; what its caller is told stands in `Reader._refusal`."""


@functools.lru_cache(maxsize=64)
def _split(url: bytes) -> tuple[str, bytes, bytes]:
    """A URL's path, as text without escapes and as it came, and its query."""
    parsed = httptools.parse_url(url)
    return unquote(parsed.path.decode("ascii")), parsed.path, parsed.query or b""


class Reader:
    """Makes a `Cycle` of each request of a connection; httptools calls the methods that begin with `on_`.

    A request that is wrong, or whose head is too long, is refused, and what comes behind it is thrown away.

    Args:
        connection: what refuses a request, and stops the reading when enough has come.
        longest: bytes of a request's head.
        scope: what stands in the scope of each of its requests.
        state: of the app; each request gets a copy.
    """

    deaf = False
    """Whether what comes is thrown away."""
    _framing_only = False
    """Whether the parser is given a head for the second time, for the sake of the body."""
    _refusal: tuple[str, str] | None = None
    """What is wrong with a request that the parser itself would take: a status of HTTP, and a text for the caller."""

    def __init__(self, connection: "HttpProtocol", longest: int, scope: dict[str, Any], state: dict[str, Any]) -> None:
        # All at once, but for those above, which are seldom set: see `HttpProtocol.__init__`.
        self._connection = connection
        self._longest = longest
        self._scope = scope
        self._state = state
        self._parser = httptools.HttpRequestParser(self)
        self.latest: Cycle | None = None
        """The request whose head was read last."""
        self.waiting: deque[Cycle] = deque()
        """Those that have come and have not been begun."""
        self.unparsed = b""
        """What has come behind the latest."""
        self.head_since: float | None = None
        """Time at which a part of a request's head came that is not yet whole."""
        self._in_head = False
        """Whether a request has begun whose head is not whole."""
        self._head_size = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._missing = 0
        """Bytes of the body that is arriving which have not come, as far as its head says."""

    @property
    def has_more(self) -> bool:
        """Whether the client has sent more than has been begun."""
        return bool(self.unparsed or self.waiting)

    def read(self, *, busy: bool) -> None:
        """Parse until a request has come as a whole that can't be begun yet.

        Args:
            busy: whether the connection answers a request.
        """
        while self.unparsed and (self._body_comes() or not (busy or self.waiting)):
            size = max(_SLICE, self._missing)
            data, self.unparsed = self.unparsed[:size], self.unparsed[size:]
            self._parse(data)

    def stop(self) -> None:
        """Throw away what has come and what will come."""
        self.deaf = True
        self.unparsed = b""
        self.waiting.clear()

    def close(self) -> None:
        """Let go of the connection, which is at its end: no cycle of references is left."""
        self.stop()
        self.latest = None
        del self._parser, self._connection

    def _body_comes(self) -> bool:
        return self.latest is not None and self.latest.more_body

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            # The exception itself isn't kept, or it would make a cycle with this frame.
            if self._refusal is None:
                logger.warning("Invalid HTTP request received.")
            self._connection.refuse(*(self._refusal or _BAD))
        if self._in_head and not self.deaf:
            self._has_part_of_head(len(data))

    def _has_part_of_head(self, size: int) -> None:
        if self.head_since is None:  # it began somewhere in these bytes: they aren't counted
            self.head_since, self._head_size = self._connection.loop.time(), 0
        else:
            self._head_size += size
        if self._head_size > self._longest:
            self._connection.refuse(*_TOO_LONG)
        elif len(self._headers) > _MOST_HEADERS:
            self._connection.refuse(*_TOO_MANY)

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
        self.unparsed = rest + self.unparsed

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
        self.head_since = None
        if self._head_size + 2 * _SLICE > self._longest and self._length_of_head() > self._longest:
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
        """Take a part of a body."""
        cycle = self.latest
        if cycle is not None and not cycle.response_complete:
            cycle.body += body
            cycle.message_event.set()
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self._connection.flow.pause_reading()
        if self._missing:
            self._missing -= len(body)

    def on_message_complete(self) -> None:
        """End a request; one that asks for another protocol has its body to come."""
        cycle = self.latest
        if cycle is None or (self._parser.should_upgrade() and self._is_framed()):
            return
        self._missing = 0
        cycle.more_body = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.deaf = True

    def _is_framed(self) -> bool:
        return any(name in (b"content-length", b"transfer-encoding") for name, _ in self._headers)
