"""The client side of signed requests (RFC 9421). You may copy this file: it needs no other part of this project.

The client signs a text. The text has one line for each covered component of the request. The last line has the list of
these components and the parameters of the signature:

    "@method": POST
    "@path": /mcp
    "content-digest": sha-256=:…:
    "@signature-params": ("@method" "@path" "content-digest");created=1700000000;keyid="ci";nonce="…"

The signature does not cover the host, because proxies change it. So use a key pair for one server only. Otherwise a
request that was signed for one server would be valid on another.
"""

import base64
import hashlib
import re
import secrets
import time
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_KEY_ID = re.compile(r"[ !#-\[\]-~]+")
"""Characters that a quoted string may contain without escapes (RFC 9651, section 3.3.3)."""


def signed_headers(
    method: str, url: str, body: bytes, key_id: str, private_key: Ed25519PrivateKey, *, now: float | None = None
) -> dict[str, str]:
    """Return the headers that sign a request: Content-Digest, Signature-Input and Signature.

    The headers contain the time and a nonce, so they are valid for one request. A retry needs new headers.

    Args:
        method: the HTTP method.
        url: the URL as the client sends it, percent-encoded.
        body: the bytes of the body as the client sends them; empty without a body.
        key_id: the id of the public key on the server.
        private_key: the client's private key.
        now: the time in seconds since 1970; None: the current time.

    Raises:
        ValueError: the key id or the URL contains characters that are not allowed.
    """
    if not _KEY_ID.fullmatch(key_id):
        raise ValueError("The key id must be printable ASCII characters, without quotation marks and backslashes.")
    if not (url.isascii() and url.isprintable()):
        raise ValueError("The URL must be percent-encoded.")
    parts = urlsplit(url)
    digest = f"sha-256=:{_base64(hashlib.sha256(body).digest())}:"
    covered = {"@method": method.upper(), "@path": parts.path or "/", "content-digest": digest}
    if parts.query:
        covered["@query"] = f"?{parts.query}"
    names = " ".join(f'"{name}"' for name in covered)
    created = int(time.time() if now is None else now)
    parameters = f'({names});created={created};keyid="{key_id}";nonce="{secrets.token_urlsafe(16)}"'
    lines = [f'"{name}": {value}' for name, value in covered.items()]
    text = "\n".join([*lines, f'"@signature-params": {parameters}'])
    return {
        "Content-Digest": digest,
        "Signature-Input": f"sig={parameters}",
        "Signature": f"sig=:{_base64(private_key.sign(text.encode()))}:",
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
