"""Content-Digest (RFC 9530): a body's hash in a header, by which a signature covers the body."""

import hashlib
import hmac
from typing import Any

import http_sf

from mcp_swarm.auth.signatures.errors import BadSignature

_HASHES = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}
"""Those that RFC 9530, section 5, calls active. Any other is passed over, as its section 2 wants it."""


def check_digest(value: str, body: bytes) -> None:
    """Compare a Content-Digest with the body that it came with.

    Raises:
        BadSignature: it can't be read, has no hash that is known here, or one that is not the body's.
    """
    try:
        digests: Any = http_sf.parse(value.encode("ascii"), tltype="dictionary")
    except ValueError:
        raise BadSignature("Content-Digest can't be read; it looks like sha-256=:<base64>:.") from None
    known = digests.keys() & _HASHES.keys()
    if not known:
        raise BadSignature("Content-Digest must have a sha-256 or a sha-512.")
    for name in known:
        digest, _ = digests[name]
        if not isinstance(digest, bytes) or not hmac.compare_digest(digest, _HASHES[name](body).digest()):
            raise BadSignature("Content-Digest is not that of the body.")
