"""Request signing for clients that use httpx, or httpx2 as the MCP SDK does."""

from typing import Any, Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from anyreplica.signing.sign import signed_headers


class _Request(Protocol):
    """The attributes that the requests of both libraries have."""

    method: str
    url: Any
    headers: Any

    @property
    def content(self) -> bytes:
        """Request body."""


R = TypeVar("R", bound=_Request)


class Signed:
    """An authentication object that signs each request of a client. Pass it to either library as the argument `auth`:

        http = httpx2.AsyncClient(auth=Signed("ci", private_key(Path("ci.pem").read_bytes())))
        async with http, Client(streamable_http_client(url, http_client=http)) as client: ...

    The body must be complete when the request is signed. For a body from an iterator, the libraries raise
    `RequestNotRead`. A request that follows a redirect keeps the old signature.
    """

    def __init__(self, key_id: str, private_key: Ed25519PrivateKey) -> None:
        self._key_id = key_id
        self._private_key = private_key

    def __call__(self, request: R) -> R:
        """Add the signature headers to a request and return the request."""
        headers = signed_headers(request.method, str(request.url), request.content, self._key_id, self._private_key)
        request.headers.update(headers)
        return request
