"""Signed requests (RFC 9421): each with a time and a nonce of its own."""

from collections.abc import Callable
from dataclasses import dataclass

from mcp_swarm.signing.httpx_auth import Signed
from mcp_swarm.signing.keypair import private_key
from mcp_swarm.signing.sign import signed_headers


@dataclass(frozen=True)
class Signer:
    """Who signs, in a form that other processes can be sent.

    Raises (when it signs):
        ValueError: the id or the key is none.
    """

    key_id: str
    pem: bytes
    """The private key's file."""

    def lines(self, url: str) -> Callable[[bytes], bytes]:
        """What gives the header lines that sign a POST of a body to a URL."""
        key = private_key(self.pem)

        def sign(body: bytes) -> bytes:
            headers = signed_headers("POST", url, body, self.key_id, key)
            return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()

        return sign

    def auth(self) -> Signed:
        """The same for the official client."""
        return Signed(self.key_id, private_key(self.pem))
