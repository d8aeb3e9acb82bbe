"""One MCP request as bytes of HTTP/1.1, in either protocol family."""

from enum import Enum
from typing import Any

import orjson


class Family(Enum):
    """A protocol family, by the version that its requests carry."""

    HANDSHAKE = "2025-11-25"
    STATELESS = "2026-07-28"


BOTH_FORMS = "application/json, text/event-stream"
"""What the official clients accept."""

_CLIENT = {"name": "benchmark", "version": "1"}


def encode(
    method: str,
    params: dict[str, Any] | None = None,
    *,
    family: Family = Family.HANDSHAKE,
    accept: str = BOTH_FORMS,
    key: str = "",
) -> bytes:
    """A `POST /mcp`, ready to be written to a connection any number of times; its JSON-RPC id is 1."""
    params = dict(params or {})
    headers = {
        "Host": "127.0.0.1",
        "User-Agent": "benchmark",
        "Accept": accept,
        "Content-Type": "application/json",
        "MCP-Protocol-Version": family.value,
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    if family is Family.STATELESS:
        headers["Mcp-Method"] = method
        if name := params.get("name"):
            headers["Mcp-Name"] = name
        params["_meta"] = {**_envelope(), **params.get("_meta", {})}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    body = orjson.dumps(message)
    headers["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


def _envelope() -> dict[str, Any]:
    return {
        "io.modelcontextprotocol/protocolVersion": Family.STATELESS.value,
        "io.modelcontextprotocol/clientInfo": _CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
