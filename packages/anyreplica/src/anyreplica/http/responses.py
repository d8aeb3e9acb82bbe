"""Encode JSON, send HTTP responses and refusals, and find the app for a path.

Standard ASGI has two messages for a response. Each message passes the `send` function of every middleware. Together
they took an eighth of the time of a call. The uvicorn protocol of this package accepts a response in one message, and
announces this extension in `scope["extensions"]`. Other ASGI servers, and the middleware of other packages, get the two
messages of standard ASGI.

A refusal (`Refused`) is the error of a request before any component runs. The client gets it as a JSON-RPC error.
"""

import json
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any

import orjson
from mcp_types import INVALID_REQUEST
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica.http.request_record import headers_of, path_of

# The last two headers stop proxies from buffering events.
EVENT_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

PING = b": ping\r\n\r\n"
"""A comment that keeps an event stream open."""

FIRST_WITH_EMPTY = "2025-11-25"
"""The protocol version from which on clients accept an event with an id and empty data (Transports, "Sending Messages
to the Server")."""

PING_SECONDS = 15.0
"""Seconds without an event after which an open event stream gets a comment, so that no proxy closes the stream."""

JSON = ((b"content-type", b"application/json"),)
"""The headers of a JSON reply."""

WHOLE = "http.response.whole"
"""Type of the message for a whole response, and name of the extension. The message has `status`, `headers` (without
Content-Length and without line breaks) and the whole `body`. It may have `lines`: further headers as bytes, each after
`\\r\\n`. The HTTP server caches what it makes of `headers`, so `lines` has the headers that differ from reply to
reply."""

ASGI_EXTENSIONS: dict[str, dict[object, object]] = {WHOLE: {}}
"""Value of `scope["extensions"]` in a server that accepts such messages."""

BEGINNINGS = frozenset({"http.response.start", WHOLE})
"""Types of the messages that contain the status and the headers of a response."""


def event(message: bytes, identity: str = "") -> bytes:
    """Return a JSON-RPC message as an event, with an id if it has one."""
    named = b"id: %b\r\n" % identity.encode() if identity else b""
    return b"event: message\r\n%bdata: %b\r\n\r\n" % (named, message)


def empty_event(identity: str) -> bytes:
    """Return an event without a message. A client that loses the connection after it can resume from this id."""
    return b"id: %b\r\ndata: \r\n\r\n" % identity.encode()


def send_response(
    scope: Scope, send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> Awaitable[None]:
    """Send a response. `headers` must not contain Content-Length."""
    if WHOLE in scope.get("extensions", ()):
        return send({"type": WHOLE, "status": status, "headers": [*headers], "body": body})
    return _send_parts(send, status, [*headers, (b"content-length", b"%d" % len(body))], body)


async def _send_parts(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class StandardOnly:
    """A middleware that hides the extension from the inner app, so that the outer middleware gets standard ASGI only.

    With a `header`, it does so only for requests that have this header.
    """

    def __init__(self, app: ASGIApp, header: bytes | None = None) -> None:
        self.app = app
        self.header = header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if WHOLE in scope.get("extensions", ()) and (self.header is None or self.header in headers_of(scope)):
            # Change the scope and do not copy it: the inner app adds keys that the access log and the audit log read.
            scope["extensions"] = {name: value for name, value in scope["extensions"].items() if name != WHOLE}
        await self.app(scope, receive, send)


def by_path(exact: Mapping[str, ASGIApp], others: ASGIApp, smallest: int = 0) -> ASGIApp:
    """Return an app that sends a request to the app of its exact path, and every other request to `others`.

    The routing of Starlette would take as much time as a whole call.

    Args:
        smallest: minimum size in bytes of the replies of `exact` that are compressed with gzip. 0: none is. If the ASGI
            server accepts a reply in one message, it compresses the replies itself, as the uvicorn protocol of this
            package does.
    """
    standard = {path: GZipMiddleware(app, smallest, 1) for path, app in exact.items()} if smallest else exact

    def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return others(scope, receive, send)
        apps = exact if WHOLE in scope.get("extensions", ()) else standard
        return (apps.get(scope["path"]) or apps.get(path_of(scope), others))(scope, receive, send)

    return answer


def encode(value: Any) -> bytes:
    """Encode plain data as JSON.

    orjson supports only integers of 64 bits and Unicode scalars. For other data this function uses the standard
    library, which writes integers exactly and escapes lone surrogates.

    Raises:
        ValueError: Data for the standard library contains NaN or an infinity. orjson writes them as null.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def response(identity: int | str, result: dict[str, Any]) -> bytes:
    """Encode a JSON-RPC response."""
    return encode({"jsonrpc": "2.0", "id": identity, "result": result})


def error_response(identity: int | str | None, code: int, message: str, data: Any = None) -> bytes:
    """Encode a JSON-RPC error response."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return encode({"jsonrpc": "2.0", "id": identity, "error": error})


UNAVAILABLE = -32000
"""The first JSON-RPC code for errors of the server (JSON-RPC 2.0, section 5.1). MCP does not define its meaning."""


class Refused(Exception):
    """A request that gets an error before any component runs.

    Args:
        status: The HTTP status.
        message: The text of the error.
        code: The JSON-RPC code.
        data: The JSON-RPC data of the error.
        identity: The JSON-RPC id of the request. None if the id is unknown.
        headers: Headers of the reply in addition to its type and length.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: int = INVALID_REQUEST,
        data: Any = None,
        identity: int | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.data = data
        self.identity = identity
        self.headers = headers or {}

    @classmethod
    def retry_later(cls, message: str, *, code: int = UNAVAILABLE, identity: int | str | None = None) -> "Refused":
        """Return a refusal with HTTP status 503 that asks the client to wait for one second."""
        return cls(503, message, code=code, identity=identity, headers={"Retry-After": "1"})


class ClientGone(Exception):
    """The client closed the connection before it got an answer."""


async def send_refusal(scope: Scope, send: Send, refused: Refused) -> None:
    """Send a refusal as a JSON-RPC error."""
    headers = [(name.lower().encode(), value.encode()) for name, value in refused.headers.items()]
    body = error_response(refused.identity, refused.code, refused.message, refused.data)
    await send_response(scope, send, refused.status, (*JSON, *headers), body)
