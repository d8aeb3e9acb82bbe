"""Whether a request is signed rightly (RFC 9421), and by whom."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, VerifyResult
from http_message_signatures.algorithms import ED25519
from http_message_signatures.exceptions import HTTPMessageSignaturesException
from http_sf import StructuredFieldError
from http_sf.compat import Item
from starlette.types import Scope

from mcp_swarm.auth.refusal import BadSignature
from mcp_swarm.auth.signatures.nonces import Nonces
from mcp_swarm.auth.signatures.received import Received, check_digest

_NONCE = range(8, 129)
"""Characters that a nonce may have."""

_LONGEST_INPUT = 4096
_LONGEST = 512
"""Characters that Signature-Input may have, and each of the other two headers."""

_WRONG = "The signature is not that of the key for this request: another key, or something was changed after signing."


def is_signed(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request, by its headers (names in lower case, as in a scope), claims to be signed."""
    return any(name in (b"signature-input", b"signature") for name, _ in headers)


class Signatures:
    """Checks signatures: exactly one on a request, of Ed25519, whatever the request says of its algorithm.

    It covers `@method`; the target, as `@target-uri` or `@request-target` or as `@path` and, where there is one,
    `@query`; and `content-digest`, where there is a body. What `@target-uri` is behind a proxy: see `Received`. It may
    cover more, but no component with parameters (`"content-digest";key="sha-256"`, `"@query-param";name="a"`): such a
    one is weaker than the whole, and lets anybody make the server parse long headers ahead of the signature.

    A signature is good for `max_age` seconds from `created` on; two clocks may differ by `skew` seconds.

    Raises:
        ValueError: signatures would be good for longer than their nonces are remembered.
    """

    def __init__(
        self,
        key_of: Callable[[str], Ed25519PublicKey | None],
        nonces: Nonces,
        *,
        max_age: float = 60,
        skew: float = 5,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if nonces.seconds < max_age + skew:
            raise ValueError("Nonces must be remembered for as long as a signature may be used.")
        self._nonces = nonces
        self._max_age = max_age
        self._skew = skew
        self._clock = clock
        self._verifier = _Verifier(key_of, self._check_input)

    async def check(self, scope: Scope, body: bytes) -> str:
        """The id of the key that signed a request.

        Raises:
            BadSignature: the request is not signed rightly, or was sent before.
        """
        parameters = self._verified(Received(scope), body).parameters
        key_id, nonce = str(parameters["keyid"]), str(parameters["nonce"])
        # Last of all: whoever has no key could use up the nonces of those who have.
        if not await self._nonces.take(key_id, nonce):
            raise BadSignature("The nonce was used before: sign each request anew, also one that is sent again.")
        return key_id

    def _verified(self, request: Received, body: bytes) -> VerifyResult:
        request.header("signature-input", _LONGEST_INPUT)
        if "," in request.header("signature", _LONGEST):
            raise BadSignature("A request has exactly one signature; this one has several.")
        try:
            (result,) = self._verifier.verify(request, max_age=None)
        except BadSignature:
            raise
        except Exception as error:  # noqa: BLE001  # a library's look at whatever bytes a caller sends
            raise BadSignature(_said(error)) from None
        covered = result.covered_components
        _check_coverage(request, covered, has_body=bool(body))
        if '"content-digest"' in covered:
            check_digest(request.header("content-digest", _LONGEST), body)
        return result

    def _check_input(self, components: Sequence[Item], given: Mapping[str, Any]) -> None:
        """Look at what the signature says of itself; the library has looked at the types."""
        if any(component.params for component in components):
            raise BadSignature("The signature covers a part of something; name whole components, without parameters.")
        missing = [name for name in ("created", "keyid", "nonce") if name not in given]
        if missing:
            raise BadSignature(f"The signature lacks the parameter {' and '.join(missing)}.")
        if len(given["nonce"]) not in _NONCE:
            raise BadSignature(f"The nonce must have {_NONCE.start} to {_NONCE.stop - 1} characters.")
        now = self._clock()
        if given["created"] > now + self._skew:
            raise BadSignature("The signature was created in the future; are both clocks right?")
        if now - given["created"] > self._max_age:
            raise BadSignature(f"The signature is older than {self._max_age:g} s; are both clocks right?")
        if now - self._skew > given.get("expires", now):
            raise BadSignature("The signature has expired.")


def _check_coverage(request: Received, covered: Mapping[str, str], *, has_body: bool) -> None:
    """Refuse a signature that leaves open what is asked for. `covered` is by component, as the signature names it."""
    missing = [] if '"@method"' in covered else ["@method"]
    if not covered.keys() & {'"@target-uri"', '"@request-target"'}:
        target = ["@path", "@query"] if "?" in request.request_target else ["@path"]
        missing += [name for name in target if f'"{name}"' not in covered]
    if has_body and '"content-digest"' not in covered:
        missing.append("content-digest")
    if missing:
        raise BadSignature(f"The signature does not cover {' and '.join(missing)}.")


def _said(error: Exception) -> str:
    """What a caller is told of the library's refusal: its own words where they are about what the caller wrote."""
    reason = error.__cause__ or error
    if isinstance(reason, InvalidSignature):
        return _WRONG
    if isinstance(reason, HTTPMessageSignaturesException | StructuredFieldError):
        return f"{error}."
    return "The signature covers what a signature can't cover."


class _Verifier(HTTPMessageVerifier, HTTPSignatureKeyResolver):
    """The library's, with Ed25519, keys by their id, and another look at a signature's parameters than its own."""

    def __init__(
        self,
        key_of: Callable[[str], Ed25519PublicKey | None],
        check: Callable[[Sequence[Item], Mapping[str, Any]], None],
    ) -> None:
        super().__init__(signature_algorithm=ED25519, key_resolver=self)
        self._key_of = key_of
        self._check = check
        self._nobodys = Ed25519PrivateKey.generate().public_key()

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
        """The key of an id; for one that nobody has, a key of nobody's, so that neither words nor time tell of it."""
        return self._key_of(key_id) or self._nobodys

    def validate_created_and_expires(self, sig_input: Any, max_age: object = None) -> None:  # noqa: ARG002
        """Ahead of all that costs time."""
        self._check(sig_input, sig_input.params)
