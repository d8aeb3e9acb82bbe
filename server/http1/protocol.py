"""HTTP/1.1 as uvicorn speaks it, with this server's manners."""

import asyncio
import functools
import secrets
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from server import config, eager
from server.http1.cycle import Cycle
from server.http1.known_head import KnownHead, learn
from server.http1.limits import KEY, Limits
from server.http1.turn import turn_of
from server.replica import name_of

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIVersions, HTTPScope

_SWEEP_SECONDS = 1.0

_LINGER_SECONDS = 2.0
"""Time for a caller to read its answer while it still sends what nobody will read."""


_LESSONS = 8
"""Heads that are remembered in vain; a connection whose heads all differ goes without."""


class _HeadTooLongError(Exception):
    """Ends the parser's work on a head that has come as a whole."""


_ASGI: "ASGIVersions" = {"version": "3.0", "spec_version": "2.3"}

_SHORT_URL = 64
"""Bytes of a URL that is worth remembering; nearly all are `/mcp`."""


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


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with one look a second at all connections instead of a timer for each request.

    Each connection is held to `Limits`: it ends after its share of requests or of time, or when the replica drains,
    with a response that says so (`Connection: close`), so that no request is lost; one whose request's head is too
    long (431) or too slow (408) is closed; one too many takes the place of an idle one, or is refused (503). The
    answer to what isn't HTTP has the headers of every other response.
    """

    _idle_since: float | None = None
    """Time of the loop at which this connection began to wait for a request; None while it serves one."""
    _in_head = False
    """Whether a request has begun whose head is not whole."""
    _head_since: float | None = None
    """Time at which a part of a request's head came that is not yet whole."""
    _head_size = 0
    _much = False
    """Whether enough has come that a whole head in it might be too long."""
    _lingers_until: float | None = None
    """Time at which a connection is cut whose last response has been sent."""
    _retiring = False
    _deaf = False
    """Whether what comes is thrown away."""
    _known: KnownHead | None = None
    """The head of the request before, if nothing stands between it and the next."""
    _lessons = _LESSONS
    """How many more heads are remembered until one comes again."""

    @property
    def leaving(self) -> bool:
        """Whether the next response is to be the last: not before those of requests that are here already."""
        return (self._retiring or self._limits.draining) and not self.pipeline

    @property
    def compresses_from(self) -> float:
        """Bytes from which on a response may be made smaller."""
        return self._limits.compresses_from

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        self._limits: Limits = self.app_state[KEY]
        self._turn = turn_of(self.loop)
        now = self._idle_since = self.loop.time()
        self._retires_at = now + self._limits.share_of_age()
        self._requests_left = self._first_left = self._limits.share_of_requests()
        self._limits.opened += 1
        if len(self.connections) == 1:
            self.loop.call_later(_SWEEP_SECONDS, self._sweep)
        elif len(self.connections) > self._limits.connections and not self._take_the_place_of_another():
            self._is_one_too_many()

    def _take_the_place_of_another(self) -> bool:
        """Close the connection that has been idle for longest; False if there is none."""
        idle = [
            each
            for each in self._all()
            if each._idle_since is not None and each is not self and not each.transport.is_closing()  # noqa: SLF001
        ]
        if not idle:
            return False
        min(idle, key=lambda each: cast("float", each._idle_since)).transport.close()  # noqa: SLF001
        return True

    def _is_one_too_many(self) -> None:
        if len(self.connections) > 2 * self._limits.connections:  # so many are being told already
            self.transport.abort()
        else:
            text = "This replica has as many connections as it takes (MAX_CONNECTIONS); try again."
            self.refuse("503 Service Unavailable", text, "retry-after: 1")

    def _all(self) -> "set[HttpProtocol]":
        return cast("set[HttpProtocol]", self.connections)

    def _sweep(self) -> None:
        """Look at all connections, as long as there are any."""
        now = self.loop.time()
        for connection in tuple(self._all()):
            connection.look(now)
        if self.connections:
            self.loop.call_later(_SWEEP_SECONDS, self._sweep)

    def look(self, now: float) -> None:
        """Close the connection if something takes too long; let it end if it is old."""
        if self._lingers_until is not None:
            if self._lingers_until < now:
                self.transport.abort()
        elif self._head_since is not None and self._head_since < now - self._limits.receive:
            self.refuse("408 Request Timeout", "The request's head took too long to arrive.")
        elif self._idle_since is not None and self._idle_since < now - self.timeout_keep_alive:
            self.timeout_keep_alive_handler()
        elif self._retires_at < now:
            self._retiring = True

    def _unset_keepalive_if_required(self) -> None:
        """There is no timer to cancel."""

    def data_received(self, data: bytes) -> None:
        """Take data; it is parsed together with what other connections received."""
        self._turn.receive(self, data)

    def feed(self, data: bytes) -> None:
        """Parse data."""
        if self._deaf:
            return
        before: RequestResponseCycle | None = self.cycle
        known, self._known = self._known, None
        if known is not None:
            read = known.read(data)
            if read is not None:
                headers, body = read
                self._known, self._lessons = known, _LESSONS
                self._repeat(known.scope(headers), body)
                return
        between = not self._in_head and (before is None or not before.more_body)
        self._much = self._head_size + len(data) > self._limits.head
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _HeadTooLongError):
                self._refuse_head()
                return
            self.logger.warning("Invalid HTTP request received.")
            self.refuse("400 Bad Request", "Invalid HTTP request received.")
        except httptools.HttpParserUpgrade:
            self._unsupported_upgrade_warning()
        else:
            if between and self.cycle is not before:
                self._learn(data)
        if self._in_head:
            # Behind whole requests in the same data stands a part of unknown length; it counts from the next data on.
            self._has_part_of_head(len(data) if self.cycle is before else 0)

    def _learn(self, data: bytes) -> None:
        """Remember a head, if the request came in one piece and nothing of it concerns the connection."""
        cycle = cast("Cycle", self.cycle)
        if self._lessons and not (cycle.more_body or cycle.response_started or self.expect_100_continue):
            self._lessons -= 1
            self._known = learn(data, self.scope, cycle.body, self._limits.head) if cycle.keep_alive else None

    def _repeat(self, scope: Any, body: bytes) -> None:
        """Begin a request whose head is known, and which has come as a whole."""
        scope["state"] = self.app_state.copy()
        self._begin(scope, keep_alive=True).take(body)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._in_head = True

    def on_headers_complete(self) -> None:
        """Make a request's scope and its cycle, and let the app begin; as uvicorn does without WebSockets."""
        self._in_head = False
        if self._head_since is not None:
            self._head_since, self._head_size = None, 0
        if self._much and self._length_of_head() > self._limits.head:
            raise _HeadTooLongError
        parser = self.parser
        version = parser.get_http_version()
        path, raw_path, query = _split(self.url) if len(self.url) < _SHORT_URL else _split.__wrapped__(self.url)
        scope: HTTPScope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": parser.get_method().decode("ascii"),
            "root_path": "",
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
            "state": self.app_state.copy(),
        }
        self._begin(scope, keep_alive=version != "1.0" and parser.should_keep_alive())

    def _begin(self, scope: "HTTPScope", *, keep_alive: bool) -> Cycle:
        self.scope = scope
        before: RequestResponseCycle | None = self.cycle
        self.cycle = cycle = Cycle(self, self._turn, keep_alive=keep_alive)
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:  # a pipelined one
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))
        return cycle

    def _has_part_of_head(self, size: int) -> None:
        if self._deaf:  # it was no HTTP
            return
        if self._head_since is None:
            self._head_since = self.loop.time()
        self._head_size += size
        if self._head_size > self._limits.head:
            self._refuse_head()

    def _length_of_head(self) -> int:
        """Bytes of a head that has come as a whole, but for its first line's method and version."""
        return len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _refuse_head(self) -> None:
        self.refuse("431 Request Header Fields Too Large", "The request's head is too long.")

    def linger(self) -> None:
        """Close the connection in a way that lets the caller read its answer although it has not sent everything.

        Closing at once would send a reset, which may overtake the answer (RFC 9112, section 9.6).
        """
        self._deaf = True
        if not self.transport.can_write_eof():  # TLS
            self.transport.close()
            return
        self._lingers_until = self.loop.time() + _LINGER_SECONDS
        self.flow.resume_reading()
        self.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, after what it sent before."""
        self._turn.run()
        self._limits.closed(self._first_left - self._requests_left)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection when it has been answered; with what it sent before."""
        self._turn.run()
        super().shutdown()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        self._idle_since = None
        self._requests_left -= 1
        if not self._requests_left:
            self._retiring = True
        self._turn.start(self, cycle, app)

    def answer(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        """Run the app for a request; uvicorn looks at an end that isn't the usual one."""
        running: Any = app(cycle.scope, cycle.receive, cycle.send)
        task: asyncio.Task[None] = eager.start(running, self.loop)
        if task.done():
            self._ended(cycle, task)
        else:
            self.tasks.add(task)
            task.add_done_callback(functools.partial(self._ended, cycle))

    def _ended(self, cycle: RequestResponseCycle, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if cycle.response_complete and not task.cancelled() and task.exception() is None:
            cycle.on_response = _nothing  # which held the connection
            return
        looking = eager.start(cycle.run_asgi(lambda *_: task), self.loop)
        if not looking.done():
            self.tasks.add(looking)
            looking.add_done_callback(self.tasks.discard)

    def on_response_complete(self) -> None:
        """Go on with a pipelined request, or wait for the next."""
        self.server_state.total_requests += 1
        if self.transport.is_closing() or self._lingers_until is not None:
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()

    def refuse(self, status: str, text: str, *headers: str) -> None:
        """Answer what no app gets to see, and close the connection; after the answers that others wait for."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            self._deaf = self._retiring = True
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
        self._turn.flush()
        self.transport.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        self.linger()
