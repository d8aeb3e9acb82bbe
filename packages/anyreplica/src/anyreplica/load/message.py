"""A writer of HTTP/1.1 requests with one JSON-RPC message, for both protocols, and the signatures of such requests."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

import orjson

from anyreplica.signing.httpx_auth import Signed
from anyreplica.signing.keypair import private_key
from anyreplica.signing.sign import signed_headers


@dataclass(frozen=True)
class LoadTarget:
    """The parts of an endpoint's URL."""

    url: str
    host: str
    port: int
    path: str
    """Path and query, as in the request line."""
    tls: ssl.SSLContext | None
    """TLS context for https, otherwise None."""

    @classmethod
    def of(cls, url: str) -> "LoadTarget":
        """Parse a URL.

        Raises:
            ValueError: The text is not an http or https URL with a host.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the URL of a server; write it like http://localhost:8150/mcp")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        return cls(url, parts.hostname, port, path, tls)

    @property
    def authority(self) -> str:
        """Value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    async def resolved(self, seconds: float) -> list[str]:
        """Return the addresses of the host that accept a connection, so that no request waits for a dead address.

        Args:
            seconds: Time limit for one connection, in seconds.

        Raises:
            OSError: No address accepts a connection; this is the error of the first address.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[4][0]) for address in found))
        errors: list[OSError] = []
        good = []
        for address in addresses:
            try:
                async with asyncio.timeout(seconds):
                    _, writer = await asyncio.open_connection(address, self.port)
            except OSError as error:  # TimeoutError is a subclass of OSError.
                errors.append(error)
                continue
            writer.close()
            good.append(address)
        if not good:
            raise errors[0]
        return good


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


@dataclass(frozen=True)
class Signer:
    """A key id and a private key for signatures (RFC 9421); other processes can receive this object.

    Each signature has its own time and nonce.

    Raises (from `lines` and `auth`):
        ValueError: The key id or the key is invalid.
    """

    key_id: str
    pem: bytes
    """Content of the private key's file."""

    def lines(self, url: str) -> Callable[[bytes], bytes]:
        """Return a function that takes a body and returns the header lines that sign its POST to `url`."""
        key = private_key(self.pem)

        def sign(body: bytes) -> bytes:
            headers = signed_headers("POST", url, body, self.key_id, key)
            return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()

        return sign

    def auth(self) -> Signed:
        """Return an httpx authentication that signs the requests of the SDK's client."""
        return Signed(self.key_id, private_key(self.pem))
