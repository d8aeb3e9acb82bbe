"""Requests in the exact form that an attacker sends, and a function that reads a reply."""

import json
import socket
from typing import Any

from tests.calls import BOTH, ENVELOPE, HEADERS, VERSION, request

LISTEN = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}


def http(method: str, path: str, body: bytes = b"", /, **headers: str) -> bytes:
    """Return an HTTP request; `_` in a header's name stands for `-`."""
    lines = {"Host": "localhost"}
    if body or method == "POST":
        lines["Content-Length"] = str(len(body))
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def post(message: Any, /, path: str = "/mcp", **headers: str) -> bytes:
    """Return a POST request with a JSON message or with bytes."""
    body = message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()
    return http("POST", path, body, **{**HEADERS, **headers})


def handshake(method: str, params: dict[str, Any] | None = None, number: Any = 1, /, **headers: str) -> bytes:
    """Return a JSON-RPC request of protocol version 2025-11-25."""
    return post(request(method, params, number), **{"MCP_Protocol_Version": "2025-11-25", **headers})


def stateless(method: str, params: dict[str, Any], number: Any = 1, /, **headers: str) -> bytes:
    """Return a JSON-RPC request of protocol version 2026-07-28."""
    params = {**params, "_meta": ENVELOPE}
    said = {"Mcp_Method": method, "Mcp_Name": params.get("name") or params.get("uri")}
    routing = {
        key: text for key, text in said.items() if isinstance(text, str) and text.isascii() and text.isprintable()
    }
    return post(request(method, params, number), **{"MCP_Protocol_Version": VERSION, **routing, **headers})


def notification(method: str) -> bytes:
    """Return a JSON-RPC notification of protocol version 2025-11-25."""
    return post({"jsonrpc": "2.0", "method": method}, MCP_Protocol_Version="2025-11-25")


def echo(message: str, repeat: int = 1) -> bytes:
    """Return a call of `echo`, which replies with the text."""
    return handshake("tools/call", {"name": "echo", "arguments": {"message": message, "repeat": repeat}})


def listen(wanted: dict[str, Any] = LISTEN, /, **headers: str) -> bytes:
    """Return a request to subscribe to events."""
    return stateless("subscriptions/listen", wanted, Accept=BOTH, **headers)


def reply(connection: socket.socket) -> bytes:
    """Return the next reply, which must have a Content-Length.

    If the connection ends early, return the bytes that have come.
    """
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
