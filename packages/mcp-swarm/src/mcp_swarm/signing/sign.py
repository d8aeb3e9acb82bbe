"""The client's side: how a request is signed (RFC 9421). Needs nothing of the server, so it may be copied.

What is signed is a text with a line for each part that is covered, and as last line the list of these parts with the
signature's parameters:

    "@method": POST
    "@path": /mcp
    "content-digest": sha-256=:…:
    "@signature-params": ("@method" "@path" "content-digest");created=1700000000;keyid="ci";nonce="…"

The host is not among them, as proxies change it; so a pair of keys is for one server, or what was signed for the one
could be sent to another.
"""

import base64
import hashlib
import re
import secrets
import time
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_KEY_ID = re.compile(r"[ !#-\[\]-~]+")
"""What can stand between quotation marks as it is (RFC 9651, section 3.3.3)."""


def signed_headers(
    method: str, url: str, body: bytes, key_id: str, private_key: Ed25519PrivateKey, *, now: float | None = None
) -> dict[str, str]:
    """The headers that sign a request: Content-Digest, Signature-Input and Signature.

    They are for this request alone, also when it is sent again: they hold the time and a nonce.

    Args:
        url: as it is sent, percent-encoded.
        body: as it is sent, byte by byte; empty if there is none.
        key_id: under which the server has the public key.
        now: seconds since 1970; None: the time of the call.

    Raises:
        ValueError: the key id or the URL holds characters that it can't hold.
    """
    if not _KEY_ID.fullmatch(key_id):
        raise ValueError("A key id has printable ASCII characters, without quotation mark and backslash.")
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
