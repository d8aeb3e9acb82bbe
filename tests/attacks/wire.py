"""Requests as an attacker writes them."""

import json
import socket
from typing import Any

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def post(body: bytes, *headers: str, path: str = "/mcp") -> bytes:
    """A POST request of JSON."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def rpc(method: str, params: dict[str, Any] | None = None, identity: Any = 1, *headers: str) -> bytes:
    """A JSON-RPC request of 2025-11-25."""
    message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {}}
    return post(json.dumps(message, separators=(",", ":")).encode(), "MCP-Protocol-Version: 2025-11-25", *headers)


def stateless(method: str, params: dict[str, Any], identity: Any = 1, *headers: str) -> bytes:
    """A JSON-RPC request of 2026-07-28."""
    message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": {**params, "_meta": _META}}
    version = ("MCP-Protocol-Version: 2026-07-28", f"Mcp-Method: {method}")
    return post(json.dumps(message, separators=(",", ":")).encode(), *version, *headers)


def notification(method: str) -> bytes:
    """A JSON-RPC notification of 2025-11-25."""
    return post(json.dumps({"jsonrpc": "2.0", "method": method}).encode(), "MCP-Protocol-Version: 2025-11-25")


def reply(connection: socket.socket) -> bytes:
    """The next reply, which has a Content-Length; what there is if the connection ends before."""
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
