"""Pairs of keys: the private one is its client's alone, the public one stands beside the client's name on the server.

Ed25519 (RFC 8032) and nothing else, so that there is no algorithm to choose, and none to be talked into.
"""

import base64

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

_KIND = "ed25519:"


def new_pair() -> tuple[str, str]:
    """A new private key as PEM (PKCS #8, as `openssl genpkey -algorithm ed25519` writes it) and its public key."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return pem, public_text(key.public_key())


def public_text(key: Ed25519PublicKey) -> str:
    """A public key as text: `ed25519:` and the base64 of its 32 bytes."""
    return _KIND + base64.b64encode(key.public_bytes_raw()).decode()


def public_key(text: str) -> Ed25519PublicKey:
    """A public key from its text.

    Raises:
        ValueError: it is none.
    """
    try:
        raw = base64.b64decode(text.removeprefix(_KIND), validate=True) if text.startswith(_KIND) else b""
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise ValueError("A public key is ed25519: and the base64 of its 32 bytes.")
    return Ed25519PublicKey.from_public_bytes(raw)


def private_key(pem: bytes) -> Ed25519PrivateKey:
    """A private key from its PEM file's content.

    Raises:
        ValueError: it is none, is encrypted, or is not of Ed25519.
    """
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a password
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("This is no Ed25519 private key in PEM without a password.")
    return key
