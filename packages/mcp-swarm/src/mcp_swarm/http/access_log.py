"""One line per request; its id and the replica's name on the reply."""

import asyncio
import logging
import random
import re
import time
from collections.abc import Awaitable, Iterator

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_swarm.http.access_lines import FAILED, FAULT, Write
from mcp_swarm.http.headers import headers_of
from mcp_swarm.http.whole_response import WHOLE
from mcp_swarm.process.logs import request_id

logger = logging.getLogger("mcp_swarm.access")

CLIENT_GONE = 499
"""Status in the log for a caller that went away before its request was complete (nginx's number; never sent)."""

_BEGINNINGS = frozenset({"http.response.start", WHOLE})
_QUIET = frozenset({"/healthz", "/health", "/readyz", "/metrics"})
_WELL_FORMED = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class AccessLog:
    """Log each request but probes, and mark each reply with what it can be found by.

    That is the request's id, in `X-Request-ID` and in every line that it causes, and in `X-Served-By` the replica.

    A caller's own `X-Request-ID` is kept if it is 1 to 64 letters, digits, `.`, `_` or `-`. An exception that gets
    this far is logged with its traceback, once, and answered with a bare 500.

    Args:
        replica: this replica's name.
        write: writes a request's line.
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
            if message["type"] in _BEGINNINGS:
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
    return next(_IDENTITIES)


def _identities() -> Iterator[str]:
    """Eight random hexadecimal digits at a time, made by the hundred."""
    while True:
        yield from random.randbytes(512).hex(" ", 4).split()  # noqa: S311  # to find lines by, not to guard anything


_IDENTITIES = _identities()
