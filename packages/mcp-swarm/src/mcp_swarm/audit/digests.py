"""What lines and arguments are recognised by."""

import hashlib
import hmac
from collections.abc import Callable

SHORTEST_KEY = 32
"""Bytes of a key."""

Digest = Callable[[bytes], str]


class Digests:
    """SHA-256 or, with a key, HMAC-SHA-256 (RFC 2104), as hexadecimal digits.

    Without a key, who can write the file can write a whole new chain; and who reads it can try arguments until one
    has the digest, which for a year of birth takes no time. A key prevents both.

    Lines and arguments have keys of their own, both made of the one: otherwise a caller could have a line of its own
    making signed by sending it as arguments.

    Args:
        key: the secret, or None.

    Raises:
        ValueError: the key is too short.
    """

    def __init__(self, key: bytes | None) -> None:
        if key is not None and len(key) < SHORTEST_KEY:
            raise ValueError(f"the key is shorter than {SHORTEST_KEY} characters; openssl rand -hex 32 makes one")
        self.keyed = key is not None
        self.line: Digest = _plain if key is None else _keyed(key, b"audit: lines")
        self.arguments: Digest = _plain if key is None else _keyed(key, b"audit: arguments")


def _plain(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _keyed(key: bytes, purpose: bytes) -> Digest:
    begun = hmac.new(hmac.digest(key, purpose, "sha256"), digestmod="sha256")

    def digest(data: bytes) -> str:
        made = begun.copy()  # which spares the preparation of the key
        made.update(data)
        return made.hexdigest()

    return digest
