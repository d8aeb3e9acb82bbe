"""Signatures for the load test's requests (RFC 9421); each signature has its own time and nonce."""

from collections.abc import Callable
from dataclasses import dataclass

from anyreplica.signing.httpx_auth import Signed
from anyreplica.signing.keypair import private_key
from anyreplica.signing.sign import signed_headers


@dataclass(frozen=True)
class Signer:
    """A key id and a private key; other processes can receive this object.

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
