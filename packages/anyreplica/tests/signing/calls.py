"""Requests as a server receives them, with signatures of any kind."""

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from starlette.types import Scope

from anyreplica.auth.authentication import BadSignature
from anyreplica.features.signatures.nonces import Nonces
from anyreplica.features.signatures.signed_requests import Signatures
from anyreplica.signing.sign import signed_headers

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
KEYS = {"ci": KEY.public_key(), "nightly": OTHER_KEY.public_key()}
NOW = 1_700_000_000
NONCE = "a-nonce-of-some-length"
PARAMETERS = f'created={NOW};keyid="ci";nonce="{NONCE}"'


def key_of(key_id: str) -> Ed25519PublicKey | None:
    """Return one of the server's keys, or None."""
    return KEYS.get(key_id)


@dataclass(frozen=True)
class Call:
    """A request."""

    method: str = "POST"
    path: str = "/mcp"
    query: str = ""
    body: bytes = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    headers: tuple[tuple[str, str], ...] = (("host", "swarm.example:8150"), ("content-type", "application/json"))
    scheme: str = "http"

    @property
    def url(self) -> str:
        """The URL as the sender writes it."""
        return f"{self.scheme}://{dict(self.headers)['host']}{self.path}" + (f"?{self.query}" if self.query else "")

    @property
    def scope(self) -> Scope:
        """The ASGI scope of the request."""
        return {
            "type": "http",
            "method": self.method,
            "scheme": self.scheme,
            "path": self.path,
            "raw_path": self.path.encode("latin-1"),
            "query_string": self.query.encode("latin-1"),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers],
        }

    def plus(self, **headers: str) -> "Call":
        """Return a copy with more headers."""
        added = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return replace(self, headers=self.headers + added)

    def replace(self, name: str, value: str | None) -> "Call":
        """Return a copy with another value of a header, or without the header."""
        rest = tuple(header for header in self.headers if header[0] != name)
        return replace(self, headers=rest if value is None else (*rest, (name, value)))

    def signed(self, key: Ed25519PrivateKey = KEY, key_id: str = "ci", now: float = NOW) -> "Call":
        """Return a copy that is signed as our clients sign it."""
        headers = signed_headers(self.method, self.url, self.body, key_id, key, now=now)
        return self.plus(**{name.lower(): value for name, value in headers.items()})

    def signed_over(
        self,
        components: Sequence[tuple[str, str]],
        parameters: str = PARAMETERS,
        *,
        key: Ed25519PrivateKey = KEY,
        label: str = "sig",
    ) -> "Call":
        """Return a copy with a valid signature over a list of components.

        A component is a pair: its name, as the signature writes it, and its value.
        """
        names = " ".join(name for name, _ in components)
        signature = base64.b64encode(key.sign(signed_text(components, parameters))).decode()
        return self.plus(signature_input=f"{label}=({names});{parameters}", signature=f"{label}=:{signature}:")


def signed_text(components: Sequence[tuple[str, str]], parameters: str = PARAMETERS) -> bytes:
    """Return the text that a signature over components signs (RFC 9421, section 2.5)."""
    names = " ".join(name for name, _ in components)
    lines = [f"{name}: {value}" for name, value in components]
    return "\n".join([*lines, f'"@signature-params": ({names});{parameters}']).encode()


def signatures(*, nonces: Nonces | None = None, clock: Callable[[], float] = lambda: NOW, **bounds: Any) -> Signatures:
    """Return a checker of signatures; it has its own nonces unless it gets those of another replica."""
    return Signatures(key_of, nonces or Nonces(None, "test", 100), clock=clock, **bounds)


def check(call: Call, checking: Signatures | None = None) -> str:
    """Check a request and return the id of its key."""
    return asyncio.run((checking or signatures()).check(call.scope, call.body))


def refusal(call: Call, checking: Signatures | None = None) -> str:
    """Return the reason why a request is refused."""
    with pytest.raises(BadSignature) as refused:
        check(call, checking)
    return str(refused.value)


def proper(said: str) -> str:
    """Return an error message. Fail if it is too long, not printable ASCII, or not a sentence."""
    is_sentence = said.isascii() and said.isprintable() and said.endswith((".", "?"))
    assert is_sentence, ascii(said)
    assert len(said) < 5000
    return said


def outcome(call: Call) -> None:
    """Check a request. Fail for any exception except `BadSignature` with a proper message."""
    try:
        assert check(call) == "ci"
    except BadSignature as refused:
        proper(str(refused))


METHOD = ('"@method"', "POST")
PATH = ('"@path"', "/mcp")
CALL = Call()
DIGEST = ('"content-digest"', signed_headers("POST", CALL.url, CALL.body, "ci", KEY)["Content-Digest"])
USUAL = [METHOD, PATH, DIGEST]
"""The components that a signature over a request without a query must cover."""
DIGESTED = CALL.plus(content_digest=DIGEST[1])
WRONG = "The signature does not match: another key signed the request, or the request changed after signing."

CALLS = [
    CALL,
    Call("GET", "/", "", b""),
    Call("GET", "/mcp", "a=1", b""),
    Call("POST", "/mcp", "a=1&b=%2F", b"\x00\xff"),
    Call("PUT", "/a/%2F/%C3%A9", "?", b"{}"),
    Call("DELETE", "/abc-._~!$&'()*+,;=:@/x", "=&:@/?", b"x" * 10_000),
]
"""Requests with all kinds of characters that a target may have (RFC 3986, section 3.3)."""
