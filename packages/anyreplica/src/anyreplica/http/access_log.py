"""The access log: one line per request. It also adds the request id and the name of the replica to each reply.

The access log does not use the logging module, because a log record takes more time than the answer to a call. Its
lines have the same format as the lines of the formatters in `anyreplica.process.logs`.
"""

import asyncio
import datetime
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Container, Sequence
from functools import lru_cache

import orjson
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyreplica.http.request_record import FAULT, LONGEST, NO_ERROR, RECORD, RequestRecord, path_of, record_of
from anyreplica.http.responses import WHOLE
from anyreplica.process.lifecycle import NotStartedError
from anyreplica.process.logs import LogBuffer, encoded, marked, request_id, trace_id
from anyreplica.settings import CoreSettings

_LOGGER = "anyreplica.access"
logger = logging.getLogger(_LOGGER)

Write = Callable[[str, Scope, int, float], None]
"""Writes the line of a request. Arguments: the request id, the scope, the status of the reply, the duration in
seconds."""

_Asked = tuple[str, bytes, tuple[str, ...]]
"""The HTTP method, the path, and `RequestRecord.called`."""

CLIENT_GONE = 499
"""Status in the log when the client disconnects before its request is complete. The number is from nginx; no reply has
it."""

_UNAUTHORIZED = (401, 403)
_set_request_id, _current_trace_id = request_id.set, trace_id.get
"""Two methods of imported objects. If a request read them from the objects, Python would create a method object each
time, which takes 700 instructions."""

_WELL_FORMED = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class AccessLog:
    """The middleware that logs each request except probes and `/metrics`.

    It adds the request id (`X-Request-ID`) and the name of the replica (`X-Served-By`) to each reply. If the client
    sends an `X-Request-ID` of 1 to 64 letters, digits, `.`, `_` or `-`, this value is the request id. The middleware
    logs an unhandled exception once, with its traceback, and answers with a plain 500.

    Args:
        writes: functions to call after each request. An error of one of them does not stop the others.
        quiet: the paths of probes and of Prometheus. Their requests are neither logged nor counted, so that a failed
            probe does not count as a refused call. A request that authentication refuses is logged and counted.
    """

    def __init__(self, app: ASGIApp, replica: str, writes: Sequence[Write], quiet: Container[str]) -> None:
        self.app = app
        self.quiet = quiet
        self.served_by = (b"x-served-by", replica.encode("latin-1"))
        self._served_by_line = b"\r\nx-served-by: " + self.served_by[1]
        self.writes = tuple(writes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        identity = _identity(scope.get(RECORD) or record_of(scope))  # usually there is a record: no call is needed
        status = 0

        def send_with_id(message: Message) -> Awaitable[None]:
            nonlocal status
            kind = message["type"]
            if kind == WHOLE:
                status = message["status"]
                message["lines"] = b"\r\nx-request-id: " + identity.encode() + self._served_by_line
            elif kind == "http.response.start":
                status = message["status"]
                request = (b"x-request-id", identity.encode())
                message["headers"] = [*message.get("headers", ()), request, self.served_by]
            return send(message)

        _set_request_id(identity)  # each request has its own task, so the value is not visible to other requests
        try:
            await self.app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            # SHUTDOWN_GRACE_SECONDS are over. The reply is sent here, because uvicorn's reply has no replica's name.
            if not status:
                record_of(scope).failed = FAULT
                reply = PlainTextResponse("This replica is stopping; retry later.", 503, {"Retry-After": "1"})
                await reply(scope, receive, send_with_id)
        except NotStartedError:
            status = 500  # of the ASGI server
            raise
        except Exception:
            logger.exception("Unhandled error")
            if not status:
                await PlainTextResponse("Internal Server Error", 500)(scope, receive, send_with_id)
        finally:
            self._record(identity, scope, status or CLIENT_GONE, time.perf_counter() - started)

    def _record(self, identity: str, scope: Scope, status: int, seconds: float) -> None:
        path = path_of(scope) if scope.get("root_path") else scope["path"]
        if path in self.quiet and status not in _UNAUTHORIZED:
            return
        for write in self.writes:
            try:
                write(identity, scope, status, seconds)
            except Exception:
                logger.exception("A request could not be recorded")


def _identity(record: RequestRecord) -> str:
    given = record.headers.get(b"x-request-id")
    if given is not None and _WELL_FORMED.fullmatch(given):
        return str(given, "ascii")
    # Not a secret: it only identifies the log lines of a request. Formatting the number would take twice the time.
    return random.getrandbits(32).to_bytes(4, "big").hex()


def access_lines(settings: CoreSettings, replica: str, buffer: LogBuffer) -> Write:
    """Return the function that writes the line of a request, in the format of the settings."""
    if settings.log_level not in ("DEBUG", "INFO"):
        return lambda *_: None
    form = (_json_lines if settings.log_format == "json" else _text_lines)(replica)

    def write(identity: str, scope: Scope, status: int, seconds: float) -> None:
        record: RequestRecord = scope[RECORD]
        failed = (status >= 400 or record.failed is not None) and record.failed != NO_ERROR
        path = (scope.get("raw_path") or scope["path"].encode())[:LONGEST]
        asked = scope["method"], path, record.called
        buffer.add((form, time.time(), identity, _current_trace_id(), status, failed, seconds, asked))

    return write


def _text_lines(replica: str) -> Callable[..., bytes]:
    """Return the function that writes a line of text.

    It joins parts in bytes, most of which it remembers: formatting the numbers and encoding the line would cost a
    thirtieth of a whole call.
    """
    middle = encoded(f" - {replica} - anyreplica.access - INFO - [")

    def line(now: float, identity: str, trace: str, status: int, failed: bool, seconds: float, asked: _Asked) -> bytes:
        second = int(now)
        thousandths = _THREE_DIGITS[int((now - second) * 1000)]
        ids = (marked(identity, trace) if trace else identity).encode()
        outcome = _encoded_outcome(status, failed, *asked)
        return b"".join(
            (_clock(second), thousandths, middle, ids, b"] ", outcome, _duration(int(seconds * 10_000 + 0.5)))
        )

    return line


def _json_lines(replica: str) -> Callable[..., bytes]:
    """Return the function that writes a line of JSON."""

    def line(now: float, identity: str, trace: str, status: int, failed: bool, seconds: float, asked: _Asked) -> bytes:
        method, path, called = asked
        fields = {
            "time": datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(timespec="milliseconds"),
            "level": "INFO",
            "logger": _LOGGER,
            "message": f"{_outcome(status, failed, *asked)} ({seconds * 1000:.1f}ms)",
            "replica": replica,
            "request_id": identity,
            "method": method,
            "path": _printable(path.decode("latin-1")),
            "status": status,
            "failed": failed,
            "ms": round(seconds * 1000, 3),
        }
        if trace:
            fields["trace_id"] = trace
        for key, word in zip(("rpc_method", "rpc_name"), called, strict=False):
            if word:
                fields[key] = _printable(word)
        return orjson.dumps(fields)

    return line


_THREE_DIGITS = tuple(b"%03d" % number for number in range(1000))


@lru_cache(maxsize=2)
def _clock(second: int) -> bytes:
    return time.strftime("%Y-%m-%d %H:%M:%S,", time.localtime(second)).encode()


@lru_cache(maxsize=256)
def _duration(tenths: int) -> bytes:
    """Return the end of a line. `tenths` is the duration in tenths of a millisecond."""
    return b" (%d.%dms)" % divmod(tenths, 10)


@lru_cache(maxsize=256)
def _encoded_outcome(status: int, failed: bool, method: str, path: bytes, called: tuple[str, ...]) -> bytes:
    return encoded(_outcome(status, failed, method, path, called))


@lru_cache(maxsize=256)
def _outcome(status: int, failed: bool, method: str, path: bytes, called: tuple[str, ...]) -> str:
    words = [method, _printable(path.decode("latin-1")), *[_printable(word) for word in called if word]]
    return f"{'✗' if failed else '✓'} {status} {' '.join(words)}"


def _printable(text: str) -> str:
    """Return a client's text for a log line: escape line breaks and control characters, and limit the length."""
    return text if text.isprintable() else ascii(text)[1:-1][:LONGEST]
