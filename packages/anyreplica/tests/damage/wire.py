"""Requests in the exact form that goes over a connection, and a function that reads a reply."""

import json
import socket
from dataclasses import dataclass, replace
from typing import Any

from mcp.shared.inbound import encode_header_value

from tests.calls import BOTH, ENVELOPE, HEADERS, VERSION, request

Headers = tuple[tuple[bytes, bytes], ...]

LISTEN = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}


@dataclass(frozen=True)
class Request:
    """A request that is not yet written as bytes."""

    body: bytes = b""
    headers: Headers = ()
    method: bytes = b"POST"
    target: bytes = b"/mcp"
    version: bytes = b"HTTP/1.1"
    end: bytes = b"\r\n"
    """End of each line of the head."""

    def plus(self, *headers: tuple[bytes, bytes]) -> "Request":
        """Return a copy with more headers."""
        return replace(self, headers=(*self.headers, *headers))

    @property
    def wire(self) -> bytes:
        """The bytes of the request."""
        first = b" ".join([self.method, self.target, self.version])
        return self.end.join([first, *(b"%b: %b" % header for header in self.headers), b"", self.body])


def http(method: str, path: str, body: bytes = b"", /, **headers: str) -> bytes:
    """Return an HTTP request; `_` in a header's name stands for `-`."""
    lines = {"Host": "localhost"}
    if body or method == "POST":
        lines["Content-Length"] = str(len(body))
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    pairs = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in lines.items())
    return Request(body, pairs, method.encode("latin-1"), path.encode("latin-1")).wire


def post(message: Any, /, path: str = "/mcp", **headers: str) -> bytes:
    """Return a POST request with a JSON message or with bytes."""
    body = message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()
    return http("POST", path, body, **{**HEADERS, **headers})


def routing(message: Any, version: str | None) -> dict[str, str]:
    """Return the headers that describe a message in a protocol version. None stands for a request without a version."""
    headers = {} if version is None else {"MCP-Protocol-Version": version}
    if version == VERSION and isinstance(message, dict):
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        name = params.get("name") or params.get("uri")
        headers |= _written({"Mcp-Method": message.get("method"), "Mcp-Name": name})
        if params.get("name") == "by_region" and isinstance(params.get("arguments"), dict):
            headers |= _written({"Mcp-Param-Region": params["arguments"].get("region")})
    return headers


def _written(values: dict[str, Any]) -> dict[str, str]:
    return {name: _header(value) for name, value in values.items() if value and isinstance(value, str)}


def _header(text: str) -> str:
    try:
        return encode_header_value(text)
    except UnicodeEncodeError:  # a lone surrogate
        return "?"


def handshake(method: str, params: dict[str, Any] | None = None, number: Any = 1, /, **headers: str) -> bytes:
    """Return a JSON-RPC request of protocol version 2025-11-25."""
    message = request(method, params, number)
    return post(message, **{**routing(message, "2025-11-25"), **headers})


def stateless(method: str, params: dict[str, Any], number: Any = 1, /, **headers: str) -> bytes:
    """Return a JSON-RPC request of protocol version 2026-07-28."""
    message = request(method, {**params, "_meta": ENVELOPE}, number)
    return post(message, **{**routing(message, VERSION), **headers})


def notification(method: str) -> bytes:
    """Return a JSON-RPC notification of protocol version 2025-11-25."""
    return post({"jsonrpc": "2.0", "method": method}, MCP_Protocol_Version="2025-11-25")


def echo(message: str, repeat: int = 1, number: int = 1, /, **headers: str) -> bytes:
    """Return a call of `echo`, which replies with the text."""
    params = {"name": "echo", "arguments": {"message": message, "repeat": repeat}}
    return handshake("tools/call", params, number, **headers)


def declared(size: int, /, **headers: str) -> bytes:
    """Return the head of a POST request to `/mcp` with a body of some bytes, without the body."""
    return http("POST", "/mcp", b"", **{"Content-Type": "application/json", "Content-Length": str(size), **headers})


def listen(wanted: dict[str, Any] = LISTEN, /, **headers: str) -> bytes:
    """Return a request to subscribe to events."""
    return stateless("subscriptions/listen", wanted, Accept=BOTH, **headers)


def reply(connection: socket.socket) -> bytes:
    """Return the next reply, which needs a Content-Length, or what has come when the connection ends early."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (part := connection.recv(65536)):
            return data
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = int(lengths[0].partition(b":")[2]) - len(body) if lengths else 0
    while missing > 0 and (part := connection.recv(min(missing, 1_000_000))):
        body += part
        missing -= len(part)
    return head + b"\r\n\r\n" + body
