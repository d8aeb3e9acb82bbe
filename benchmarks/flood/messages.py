"""What the clients say, as bytes of HTTP/1.1, and the reply to `initialize` that is right."""

from typing import Any

from benchmarks.scenarios import ECHO
from benchmarks.wire import Family, encode

_HELLO = {
    "protocolVersion": Family.HANDSHAKE.value,
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

INITIALIZE = encode("initialize", _HELLO)
WELCOME: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "result": {"protocolVersion": Family.HANDSHAKE.value, "capabilities": {"tools": {}}},
}


def initialized(session: str) -> bytes:
    """The notification that ends a handshake, within a session if there is one."""
    return _with_body(encode("notifications/initialized"), _INITIALIZED, session)


def echo(session: str, identity: int) -> bytes:
    """A call of `echo`, within a session if there is one.

    Args:
        identity: the call's JSON-RPC id: two on their way in one session must not have the same.
    """
    body = ECHO.request.partition(b"\r\n\r\n")[2]
    return _with_body(ECHO.request, body.replace(b'"id":1,', b'"id":%d,' % identity, 1), session)


def echoed(identity: int) -> dict[str, Any]:
    """The reply to such a call that is right."""
    return {**ECHO.expected, "id": identity}


def goodbye(session: str) -> bytes:
    """The end of a session, as the protocol has it."""
    return _within(session, b"DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")


def _with_body(request: bytes, body: bytes, session: str) -> bytes:
    head = request.partition(b"Content-Length: ")[0]
    return _within(session, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def _within(session: str, request: bytes) -> bytes:
    if not session:
        return request
    line, _, rest = request.partition(b"\r\n")
    return line + b"\r\nMcp-Session-Id: " + session.encode("ascii") + b"\r\n" + rest
