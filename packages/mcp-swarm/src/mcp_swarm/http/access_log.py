"""The access log: one line for each request, its id and the replica's name on the reply.

The lines are written past the logging module, whose record costs more than answering a call does, in the form that its
formatters (`mcp_swarm.process.logs`) give every other line.
"""

import asyncio
import datetime
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial

import orjson
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_swarm.http.headers import headers_of
from mcp_swarm.http.responses import BEGINNINGS
from mcp_swarm.process.log_buffer import LogBuffer
from mcp_swarm.process.logs import marked, request_id, trace_id
from mcp_swarm.settings import Settings

CALLED = "mcp_swarm.called"
"""Scope key for what was asked: (JSON-RPC method, tool's name or "")."""

FAILED = "mcp_swarm.failed"
"""Scope key that is set if a reply holds an error although its status is 200. The value says what failed:
`TOOL_ERROR`, `RPC_ERROR` or `FAULT`."""

TOOL_ERROR, RPC_ERROR, FAULT = "tool_error", "rpc_error", "fault"
"""What failed: the tool, the request, or the server."""

PATH_TAKEN = "mcp_swarm.path"
"""Scope key for the request's protocol family and path."""

LONGEST = 200
"""Characters of a path or name that are logged; whoever notes a call cuts what is longer."""

_LOGGER = "mcp_swarm.access"
logger = logging.getLogger(_LOGGER)

Write = Callable[[str, Scope, int, float], None]
"""Takes the request's id, its scope, the status of its reply, and the seconds that it took."""

_Asked = tuple[str, bytes, tuple[str, ...]]
"""The HTTP method, the path, and what stands under `CALLED`."""

CLIENT_GONE = 499
"""Status in the log for a caller that went away before its request was complete (nginx's number; never sent)."""

_QUIET = frozenset({"/healthz", "/health", "/readyz", "/metrics"})
_WELL_FORMED = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class AccessLog:
    """Logs each request but probes, and adds the request's id (`X-Request-ID`) and the replica's name to its reply.

    A caller's own `X-Request-ID` is kept if it is 1 to 64 letters, digits, `.`, `_` or `-`. An exception that gets
    this far is logged with its traceback, once, and answered with a bare 500.
    """

    def __init__(self, app: ASGIApp, replica: str, write: Write) -> None:
        self.app = app
        self.served_by = (b"x-served-by", replica.encode("latin-1"))
        self.write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        identity = _identity(scope)
        status = 0

        def send_with_id(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] in BEGINNINGS:
                status = message["status"]
                request = (b"x-request-id", identity.encode())
                message["headers"] = [*message.get("headers", ()), request, self.served_by]
            return send(message)

        request_id.set(identity)  # in the request's own task
        try:
            await self.app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            # SHUTDOWN_GRACE_SECONDS are over. Answered here, since uvicorn's own reply would name no replica.
            if not status:
                scope[FAILED] = FAULT
                reply = PlainTextResponse("This replica is stopping; try again.", 503, {"Retry-After": "1"})
                await reply(scope, receive, send_with_id)
        except Exception:
            logger.exception("Unhandled error")
            if not status:
                await PlainTextResponse("Internal Server Error", 500)(scope, receive, send_with_id)
        finally:
            if scope["path"] not in _QUIET:
                self.write(identity, scope, status or CLIENT_GONE, time.perf_counter() - started)


def _identity(scope: Scope) -> str:
    given = headers_of(scope).get(b"x-request-id")
    if given is not None and _WELL_FORMED.fullmatch(given):
        return str(given, "ascii")
    return f"{random.getrandbits(32):08x}"  # to find lines by, not to guard anything


def access_lines(settings: Settings, replica: str, buffer: LogBuffer) -> Write:
    """How to write a request's line, by the settings."""
    if settings.log_level not in ("DEBUG", "INFO"):
        return lambda *_: None
    form = partial(_json, replica) if settings.log_format == "json" else _text

    def write(identity: str, scope: Scope, status: int, seconds: float) -> None:
        failed = status >= 400 or FAILED in scope
        path = (scope.get("raw_path") or scope["path"].encode())[:LONGEST]
        asked = scope["method"], path, scope.get(CALLED, ())
        buffer.add((form, time.time(), identity, trace_id.get(), status, failed, seconds, asked))

    return write


def _text(now: float, identity: str, trace: str, status: int, failed: bool, seconds: float, asked: _Asked) -> str:
    second = int(now)
    return "%s,%03d - mcp_swarm.access - INFO - [%s] %s" % (  # noqa: UP031  # half the time of an f-string's
        _clock(second),
        (now - second) * 1000,
        marked(identity, trace),
        _message(status, failed, seconds, asked),
    )


def _json(
    replica: str, now: float, identity: str, trace: str, status: int, failed: bool, seconds: float, asked: _Asked
) -> str:
    method, path, called = asked
    fields = {
        "time": datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(timespec="milliseconds"),
        "level": "INFO",
        "logger": _LOGGER,
        "message": _message(status, failed, seconds, asked),
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
    return orjson.dumps(fields).decode()


def _message(status: int, failed: bool, seconds: float, asked: _Asked) -> str:
    return "%s %d %s (%.1fms)" % ("✗" if failed else "✓", status, _words(*asked), seconds * 1000)  # noqa: UP031


@lru_cache(maxsize=2)
def _clock(second: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))


@lru_cache(maxsize=256)
def _words(method: str, path: bytes, called: tuple[str, ...]) -> str:
    return " ".join([method, _printable(path.decode("latin-1")), *[_printable(word) for word in called if word]])


def _printable(text: str) -> str:
    """A caller's text as it may stand in a line of log: no line breaks or control characters, not endless."""
    return text if text.isprintable() else ascii(text)[1:-1][:LONGEST]
