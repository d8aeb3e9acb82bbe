"""MCP requests as bytes of HTTP/1.1, in both protocol families."""

from enum import Enum
from typing import Any

import orjson


class Family(Enum):
    """A protocol family, with the protocol version of its requests."""

    HANDSHAKE = "2025-11-25"
    STATELESS = "2026-07-28"


_CLIENT = {"name": "benchmark", "version": "1"}
HELLO: dict[str, Any] = {"protocolVersion": Family.HANDSHAKE.value, "capabilities": {}, "clientInfo": _CLIENT}
"""Parameters of `initialize`."""


def encode(
    method: str,
    params: dict[str, Any] | None = None,
    *,
    family: Family = Family.HANDSHAKE,
    key: str = "",
    session: str = "",
    identity: int | None = 1,
) -> bytes:
    """Return a `POST /mcp`. Empty `key` or `session`: the request has none. `identity` None: a notification."""
    params = dict(params or {})
    headers = {
        "Host": "127.0.0.1",
        "User-Agent": "benchmark",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": family.value,
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    if session:
        headers["Mcp-Session-Id"] = session
    if family is Family.STATELESS:
        headers["Mcp-Method"] = method
        if name := params.get("name"):
            headers["Mcp-Name"] = name
        params["_meta"] = {**_envelope(), **params.get("_meta", {})}
    numbered = {} if identity is None else {"id": identity}
    body = orjson.dumps({"jsonrpc": "2.0", **numbered, "method": method, "params": params})
    headers["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


def _envelope() -> dict[str, Any]:
    return {
        "io.modelcontextprotocol/protocolVersion": Family.STATELESS.value,
        "io.modelcontextprotocol/clientInfo": _CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
