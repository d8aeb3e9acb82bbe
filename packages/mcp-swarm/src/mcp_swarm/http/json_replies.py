"""JSON as this server writes it, and HTTP replies that carry it."""

import json
from collections.abc import Awaitable, Iterable
from typing import Any

import orjson
from starlette.types import Send

from mcp_swarm.http.whole_response import WHOLE

_CONTENT_TYPE = (b"content-type", b"application/json")


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


def send_json(send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> Awaitable[None]:
    """Answer with one JSON document."""
    return send({"type": WHOLE, "status": status, "headers": [_CONTENT_TYPE, *headers], "body": body})


def send_empty(send: Send, status: int) -> Awaitable[None]:
    """Answer without a body."""
    return send({"type": WHOLE, "status": status, "headers": [], "body": b""})
