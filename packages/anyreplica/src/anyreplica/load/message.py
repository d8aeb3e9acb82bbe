"""A writer of HTTP/1.1 requests with one JSON-RPC message, for the handshake protocol and the stateless protocol."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

from anyreplica.load.target import LoadTarget


class Family(Enum):
    """A protocol family: the handshake protocol (`LEGACY`) or the stateless protocol (`MODERN`).

    The value is the protocol version that the requests of the family name.
    """

    LEGACY = "2025-11-25"
    MODERN = "2026-07-28"


CLIENT = {"name": "anyreplica load test", "version": "1"}

_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The param of each method that the stateless protocol repeats in the header `Mcp-Name`."""

_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": Family.MODERN.value,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request and its expected response."""

    payload: bytes
    name: str
    """Name of the request in the report: the method, and the name of the tool."""
    identity: int | None
    """The JSON-RPC id; None for a notification."""
    text: str | None = None
    """The expected text of the result; None: any text is right."""


class Writer:
    """A writer of requests to one target.

    Args:
        target: The endpoint.
        headers: Headers of each request, in addition to those of the protocol.
        sign: Returns the header lines that sign a body; None: the requests are not signed.
    """

    def __init__(
        self, target: LoadTarget, headers: Mapping[str, str], sign: Callable[[bytes], bytes] | None = None
    ) -> None:
        fixed = {
            "Host": target.authority,
            "User-Agent": "anyreplica-load-test",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **headers,
        }
        self._head = f"POST {target.path} HTTP/1.1\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in fixed.items()
        )
        self._sign = sign
        self._heads: dict[tuple[Family, str, str], bytes] = {}

    def request(
        self,
        family: Family,
        identity: int | None,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        text: str | None = None,
        session: str = "",
    ) -> SentRequest:
        """Return a request, or a notification if `identity` is None.

        Args:
            family: The protocol family.
            identity: The JSON-RPC id.
            method: The JSON-RPC method.
            params: The JSON-RPC params.
            text: The expected text of the result.
            session: The session id from the server; empty: none.
        """
        params = dict(params or {})
        named = params.get(_NAMED.get(method, ""), "")
        if family is Family.MODERN:
            params["_meta"] = {**_ENVELOPE, **params.get("_meta", {})}
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if identity is not None:
            message["id"] = identity
        body = orjson.dumps(message)
        head = self._heads.get((family, method, named)) or self._remember(family, method, named)
        extra = f"Mcp-Session-Id: {session}\r\n".encode() if session else b""
        if self._sign:
            extra += self._sign(body)
        payload = b"%b%bContent-Length: %d\r\n\r\n%b" % (head, extra, len(body), body)
        return SentRequest(payload, f"{method} {named}" if named else method, identity, text)

    def _remember(self, family: Family, method: str, named: str) -> bytes:
        lines = f"MCP-Protocol-Version: {family.value}\r\n"
        if family is Family.MODERN:
            lines += f"Mcp-Method: {method}\r\n" + (f"Mcp-Name: {named}\r\n" if named else "")
        head = self._heads[family, method, named] = (self._head + lines).encode("latin-1", "replace")
        return head
