"""Key pairs for signed requests. The client has the private key, and the server has the public key and its id.

Ed25519 (RFC 8032) is the only algorithm. So nobody has to choose an algorithm, and an attacker cannot force a weaker
one.
"""

import base64

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

_KIND = "ed25519:"


def new_pair() -> tuple[str, str]:
    """Return a new private key and its public key as text.

    The private key is PEM (PKCS #8), as `openssl genpkey -algorithm ed25519` writes it.
    """
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return pem, public_text(key.public_key())


def public_text(key: Ed25519PublicKey) -> str:
    """Return a public key as text: `ed25519:` and the base64 of its 32 bytes."""
    return _KIND + base64.b64encode(key.public_bytes_raw()).decode()


def public_key(text: str) -> Ed25519PublicKey:
    """Return the public key of a text.

    Raises:
        ValueError: the text is not a public key.
    """
    try:
        raw = base64.b64decode(text.removeprefix(_KIND), validate=True) if text.startswith(_KIND) else b""
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise ValueError("The public key is not valid; write it as ed25519: and the base64 of its 32 bytes.")
    return Ed25519PublicKey.from_public_bytes(raw)


def private_key(pem: bytes) -> Ed25519PrivateKey:
    """Return the private key in the content of a PEM file.

    Raises:
        ValueError: the content is not a PEM key, is encrypted, or is not an Ed25519 key.
    """
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: the key is encrypted with a password
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("The private key is not valid; use an Ed25519 key in PEM format without a password.")
    return key
