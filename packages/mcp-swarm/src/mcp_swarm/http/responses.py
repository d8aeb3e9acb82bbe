"""JSON as this server writes it, and HTTP responses that carry it.

ASGI has two messages for a response. Each passes every middleware's `send`; together they took an eighth of a call's
time. This package's uvicorn protocol names the extension in `scope["extensions"]` and takes a response in one message.
Other servers, and middleware of other packages, get the two messages of standard ASGI.
"""

import json
from collections.abc import Awaitable, Iterable
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_swarm.http.headers import headers_of

WHOLE = "http.response.whole"
"""Type of a message with `status`, `headers` (without the length, and without line breaks) and all of the `body`. Also
the extension's name."""

ASGI_EXTENSIONS: dict[str, dict[object, object]] = {WHOLE: {}}
"""The value of `scope["extensions"]` under a server that takes such messages."""

BEGINNINGS = frozenset({"http.response.start", WHOLE})
"""Types of the messages with a response's status and headers."""


def send_response(
    scope: Scope, send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> Awaitable[None]:
    """Answer a request; `headers` go without the length."""
    if WHOLE in scope.get("extensions", ()):
        return send({"type": WHOLE, "status": status, "headers": [*headers], "body": body})
    return _send_parts(send, status, [*headers, (b"content-length", b"%d" % len(body))], body)


async def _send_parts(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class StandardOnly:
    """Hides the extension from the app within, so that middleware around that app meets standard ASGI only.

    With a `header`, of requests that have it only.
    """

    def __init__(self, app: ASGIApp, header: bytes | None = None) -> None:
        self.app = app
        self.header = header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if WHOLE in scope.get("extensions", ()) and (self.header is None or self.header in headers_of(scope)):
            # In the scope itself: what the app within notes there is read by the access log and the audit log.
            scope["extensions"] = {name: value for name, value in scope["extensions"].items() if name != WHOLE}
        await self.app(scope, receive, send)


def encode(value: Any) -> bytes:
    """Plain data as JSON.

    orjson knows integers of 64 bits and Unicode scalars only. What is beyond them takes the standard library's way,
    which is exact for integers and escapes a lone surrogate.

    Raises:
        ValueError: NaN or an infinity in data that takes the second way; the first writes null for it.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def response(identity: int | str, result: dict[str, Any]) -> bytes:
    """A JSON-RPC response."""
    return encode({"jsonrpc": "2.0", "id": identity, "result": result})


def error_response(identity: int | str | None, code: int, message: str, data: Any = None) -> bytes:
    """A JSON-RPC error response."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return encode({"jsonrpc": "2.0", "id": identity, "error": error})


def send_json(
    scope: Scope, send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> Awaitable[None]:
    return send_response(scope, send, status, ((b"content-type", b"application/json"), *headers), body)
