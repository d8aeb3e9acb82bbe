"""The check that a response is a success, and the kinds of failure."""

from typing import Any

import orjson

from anyreplica.load.connection import HttpReply
from anyreplica.load.message import SentRequest

_EXAMPLE = 200
"""Maximum length of a failure's example, in characters."""

_HINTS = {
    401: "HTTP 401 (give --token or set MCP_TOKEN)",
    404: "HTTP 404 (check the path of --url; it is usually /mcp)",
    429: "HTTP 429 too many requests",
    503: "HTTP 503 unavailable",
}

Failure = tuple[str, str]
"""The kind of failure, and an example with the beginning of the response."""


def judge(request: SentRequest, reply: HttpReply) -> Failure | None:
    """Return None for a success: HTTP 2xx, no JSON-RPC error, no tool error, the right id and the right text.

    Return the failure otherwise. A notification (no id) needs only HTTP 2xx.
    """
    if not 200 <= reply.status < 300:
        after = f"; Retry-After: {reply.retry_after}" if reply.retry_after else ""
        return _HINTS.get(reply.status, f"HTTP {reply.status}"), f"{_short(reply.body)}{after}"
    if request.identity is None:
        return None
    try:
        message = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        message = _last_event(reply.body, request.identity)
    if type(message) is not dict or message.get("id") != request.identity:
        return "not a JSON-RPC response to this request", _short(reply.body)
    result = message.get("result")
    if type(result) is not dict:
        error = message.get("error")
        code = error.get("code", "") if isinstance(error, dict) else ""
        return f"JSON-RPC error {code}".rstrip(), _short(reply.body)
    if result.get("isError"):
        return "tool error", _short(reply.body)
    if request.text is not None and _text(result) != request.text:
        return "wrong text", f"expected {request.text!r}, got {_short(reply.body)}"
    return None


def _text(result: dict[str, Any]) -> Any:
    try:
        return result["content"][0]["text"]
    except (LookupError, TypeError):
        return None


def _last_event(body: bytes, identity: int) -> Any:
    """Return the last message with this id in an event stream; None if the stream has no such message."""
    for line in reversed(body.splitlines()):
        if line.startswith(b"data:"):
            try:
                message = orjson.loads(line[5:])
            except orjson.JSONDecodeError:
                continue
            if isinstance(message, dict) and message.get("id") == identity:
                return message
    return None


def _short(body: bytes) -> str:
    text = " ".join(body.decode(errors="replace").split())
    return text if len(text) <= _EXAMPLE else f"{text[:_EXAMPLE]}…"
