"""A request that came by ASGI, as `http_message_signatures` looks at one, and the digest of its body."""

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Any

import http_sf
from starlette.types import Scope

from mcp_swarm.auth.refusal import BadSignature

_HOST = re.compile(r"[^/?#@\\\s]+")
_TARGET = re.compile(r"/[^?#]*(\?[^#]*)?")
"""What can be put together to a URL, and taken apart to the same again: a Host with a slash in it would be a path."""

_OWN = frozenset({b"host", b"signature-input", b"signature"})

_HASHES = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}
"""Those that RFC 9530, section 5, calls active. Any other is passed over, as its section 2 wants it."""


class Received:
    """The parts of a request that a signature may cover (RFC 9421, section 2), as they came over the wire.

    `@path` and `@query` are what stands in the request's first line, before any decoding. `@authority` is the header
    Host, and `@target-uri` is made of the connection's scheme, Host, path and query. Behind a proxy that ends TLS or
    sets a Host of its own, those differ from what the client has seen, so a signature that covers `@path` and `@query`
    is the robust one.

    Raises:
        BadSignature: it has no Host or one that is none, no path, or one of its headers twice.
    """

    def __init__(self, scope: Scope) -> None:
        self.headers = _headers(scope["headers"])
        host = self.headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise BadSignature("A signed request needs the header host.")
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        if not _TARGET.fullmatch(target):
            raise BadSignature("A signed request needs a path as its target.")
        self.method: str = scope["method"]
        self.url = f"{scope['scheme']}://{host}{target}"
        self.request_target: str = target

    def header(self, name: str, most: int) -> str:
        """A header's value; a `BadSignature` if it is missing, or has more than `most` characters."""
        value = self.headers.get(name)
        if value is None:
            raise BadSignature(f"A signed request needs the header {name}.")
        if len(value) > most:
            raise BadSignature(f"The header {name} is longer than {most} characters.")
        return value


def _headers(given: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Those that the signature names, and its own: reading thousands of others would only cost time."""
    named = next((value for name, value in given if name == b"signature-input"), b"")
    found: dict[str, str] = {}
    for name, value in given:
        if name in _OWN or b'"%b"' % name in named:
            text = name.decode("latin-1")
            if text in found:  # who reads it may take the one or the other
                raise BadSignature(f"A signed request has the header {text} once; this one has it twice.")
            found[text] = value.decode("latin-1")
    return found


def check_digest(value: str, body: bytes) -> None:
    """Compare a Content-Digest (RFC 9530) with the body that it came with.

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
