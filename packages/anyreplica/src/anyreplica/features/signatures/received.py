"""An ASGI request in the form that `http_message_signatures` reads, and the check of its body's digest."""

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Any

import http_sf
from starlette.types import Scope

from anyreplica.auth.refusal import BadSignature

_HOST = re.compile(r"[^/?#@\\\s]+")
_TARGET = re.compile(r"/[^?#]*(\?[^#]*)?")
"""A Host and a target of these forms make a URL that splits into the same parts again. A Host with a slash would change
the path."""

_OWN = frozenset({b"host", b"signature-input", b"signature"})

_HASHES = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}
"""The algorithms that RFC 9530, section 5, calls active. Section 2 says to ignore all others."""


class Received:
    """The parts of a request that a signature may cover (RFC 9421, section 2), as the server received them.

    `@path` and `@query` are the path and query of the request line, before any decoding. `@authority` is the header
    Host. `@target-uri` consists of the connection's scheme, Host, path and query. A proxy that ends TLS or sets its own
    Host changes `@authority` and `@target-uri`. A signature that covers `@path` and `@query` works behind such a proxy.

    Raises:
        BadSignature: the Host is missing or not valid, the target is not a path, or a signed header occurs twice.
    """

    def __init__(self, scope: Scope) -> None:
        self.headers = _headers(scope["headers"])
        host = self.headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise BadSignature("A signed request must have a valid Host header.")
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        if not _TARGET.fullmatch(target):
            raise BadSignature("The target of a signed request must be a path that starts with / and contains no #.")
        self.method: str = scope["method"]
        self.url = f"{scope['scheme']}://{host}{target}"
        self.request_target: str = target

    def header(self, name: str, most: int) -> str:
        """Return a header's value. Raise `BadSignature` if it is missing or has more than `most` characters."""
        value = self.headers.get(name)
        if value is None:
            raise BadSignature(f"A signed request must have the header {name}.")
        if len(value) > most:
            raise BadSignature(f"Header {name} too long: the limit is {most} characters.")
        return value


def _headers(given: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the Host, the headers of the signature, and the headers that the signature covers.

    The check does not need the other headers.
    """
    named = next((value for name, value in given if name == b"signature-input"), b"")
    found: dict[str, str] = {}
    for name, value in given:
        if name in _OWN or b'"%b"' % name in named:
            text = name.decode("latin-1")
            if text in found:  # the signer and the app could read different values
                raise BadSignature(f"The signed request has the header {text} twice; send it once.")
            found[text] = value.decode("latin-1")
    return found


def check_digest(value: str, body: bytes) -> None:
    """Check that a Content-Digest header (RFC 9530) matches the request body.

    Raises:
        BadSignature: the header is not valid, has neither sha-256 nor sha-512, or does not match the body.
    """
    try:
        digests: Any = http_sf.parse(value.encode("ascii"), tltype="dictionary")
    except ValueError:
        raise BadSignature("Content-Digest is not valid; write it like sha-256=:<base64>:.") from None
    known = digests.keys() & _HASHES.keys()
    if not known:
        raise BadSignature("Content-Digest must contain a sha-256 or a sha-512 digest.")
    for name in known:
        digest, _ = digests[name]
        if not isinstance(digest, bytes) or not hmac.compare_digest(digest, _HASHES[name](body).digest()):
            raise BadSignature("Content-Digest does not match the request body.")
