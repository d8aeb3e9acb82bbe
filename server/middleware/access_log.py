"""One line per request, and the request's id."""

import asyncio
import logging
import re
import secrets
import time

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.logs import request_id

logger = logging.getLogger("server.access")

CALL = "server.call"
"""Key of the scope under which the exchange notes what was asked: (JSON-RPC method, tool's name or "")."""

FAILED = "server.failed"
"""Key of the scope under which the exchange notes that the reply, though HTTP 200, tells of an error."""

CLIENT_GONE = 499
"""Status in the log for a caller that went away before its request was complete (nginx's number; never sent)."""

_QUIET = frozenset({"/healthz", "/health", "/readyz"})
_WELL_FORMED = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class AccessLog:
    """Log each request but the health checks, and give it an id, in `X-Request-ID` and in every line it causes.

    A caller's own `X-Request-ID` is kept if it is 1 to 64 letters, digits, `.`, `_` or `-`. An exception that gets
    this far is logged with its traceback, once, and answered with a bare 500.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        identity = _identity(scope)
        header = (b"x-request-id", identity.encode())
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        token = request_id.set(identity)
        try:
            await self.app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            # The grace of a shutdown is over. Answered here, since uvicorn's own reply would name no replica.
            if not status:
                reply = PlainTextResponse("This replica is stopping; try again.", 503, {"Retry-After": "1"})
                await reply(scope, receive, send_with_id)
        except Exception:
            logger.exception("Unhandled error")
            if not status:
                await PlainTextResponse("Internal Server Error", 500)(scope, receive, send_with_id)
        finally:
            if scope["path"] not in _QUIET:
                _log(scope, status or CLIENT_GONE, (time.perf_counter() - started) * 1000)
            request_id.reset(token)


def _identity(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _WELL_FORMED.fullmatch(value):
            return str(value, "ascii")
    return secrets.token_hex(4)


def _log(scope: Scope, status: int, milliseconds: float) -> None:
    path = _printable(str(scope.get("raw_path") or scope["path"].encode(), "latin-1"))
    called = [_printable(word) for word in scope.get(CALL, ()) if word]
    failed = status >= 400 or FAILED in scope
    fields = {
        "method": scope["method"],
        "path": path,
        "status": status,
        "failed": failed,
        "ms": round(milliseconds, 3),
    }
    fields |= dict(zip(("rpc_method", "rpc_name"), called, strict=False))
    logger.info(
        "%s %d %s (%.1fms)",
        "✗" if failed else "✓",
        status,
        " ".join((scope["method"], path, *called)),
        milliseconds,
        extra={"fields": fields},
    )


def _printable(text: str) -> str:
    """A caller's text as it may stand in a line of log: no line breaks or control characters, not endless."""
    return (text if text.isprintable() else ascii(text)[1:-1])[:200]
