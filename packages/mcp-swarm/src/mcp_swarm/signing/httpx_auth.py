"""Signatures for clients of httpx and of httpx2, which the MCP SDK uses."""

from typing import Any, Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mcp_swarm.signing.sign import signed_headers


class _Request(Protocol):
    """What both libraries call a request."""

    method: str
    url: Any
    headers: Any

    @property
    def content(self) -> bytes:
        """The body."""


R = TypeVar("R", bound=_Request)


class Signed:
    """Signs each request of a client. Both libraries take it as their argument `auth`:

        http = httpx2.AsyncClient(auth=Signed("ci", private_key(Path("ci.pem").read_bytes())))
        async with http, Client(streamable_http_client(url, http_client=http)) as client: ...

    A body must be there as a whole; for one that is an iterator, the libraries raise `RequestNotRead`. A redirect is
    not signed anew.
    """

    def __init__(self, key_id: str, private_key: Ed25519PrivateKey) -> None:
        self._key_id = key_id
        self._private_key = private_key

    def __call__(self, request: R) -> R:
        """Add the headers that sign a request."""
        headers = signed_headers(request.method, str(request.url), request.content, self._key_id, self._private_key)
        request.headers.update(headers)
        return request
