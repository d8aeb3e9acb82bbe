"""The check of a request's signature (RFC 9421). It returns the id of the key that signed the request."""

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

from anyreplica.auth.refusal import BadSignature
from anyreplica.features.signatures.nonces import Nonces, NoncesFull
from anyreplica.features.signatures.received import Received, check_digest

_NONCE = range(8, 129)
"""Allowed numbers of characters in a nonce."""

_LONGEST_INPUT = 4096
_LONGEST = 512
"""Maximum number of characters: the first in Signature-Input, the second in Signature and in Content-Digest."""

_WRONG = "The signature does not match: another key signed the request, or the request changed after signing."


def is_signed(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a request has a signature header. The names are in lower case, as in an ASGI scope."""
    return any(name in (b"signature-input", b"signature") for name, _ in headers)


class Signatures:
    """The check of signatures. A request must have exactly one signature, and the algorithm is always Ed25519.

    The signature must cover `@method`. It must cover the target: `@target-uri`, or `@request-target`, or `@path` and
    also `@query` if the request has a query. It must cover `content-digest` if the request has a body. `Received` says
    what `@target-uri` is behind a proxy.

    A signature may cover more components, but none with parameters (`"content-digest";key="sha-256"`,
    `"@query-param";name="a"`). Such a component protects less than the whole component. It would also let any client
    make the server parse long headers before the signature is checked.

    A signature is valid for `max_age` seconds after `created`. The two clocks may differ by `skew` seconds.

    Raises:
        ValueError: the nonces are stored for a shorter time than a signature is valid.
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
            raise ValueError("Nonces: the storage time is too short; it must be at least max_age + skew.")
        self._nonces = nonces
        self._max_age = max_age
        self._skew = skew
        self._clock = clock
        self._verifier = _Verifier(key_of, self._check_input)

    async def check(self, scope: Scope, body: bytes) -> str:
        """Return the id of the key that signed a request.

        Raises:
            BadSignature: the signature is not valid, its nonce was used before, or the replica cannot store the nonce.
        """
        parameters = self._verified(Received(scope), body).parameters
        key_id, nonce = str(parameters["keyid"]), str(parameters["nonce"])
        # This check is the last one, so that a client without a key cannot use up the nonces of other clients.
        try:
            fresh = await self._nonces.take(key_id, nonce)
        except NoncesFull as full:
            raise BadSignature(
                f"Too many signed requests: this replica stores {full.most} nonces at most; sign again and retry later."
            ) from None
        if not fresh:
            raise BadSignature("The nonce was used before; sign each request with a new nonce, also a retry.")
        return key_id

    def _verified(self, request: Received, body: bytes) -> VerifyResult:
        request.header("signature-input", _LONGEST_INPUT)
        if "," in request.header("signature", _LONGEST):
            raise BadSignature("The request has several signatures; send exactly one.")
        try:
            (result,) = self._verifier.verify(request, max_age=None)
        except BadSignature:
            raise
        except Exception as error:  # noqa: BLE001  # bytes of a caller cause many kinds of errors in the library
            raise BadSignature(_refusal_text(error)) from None
        covered = result.covered_components
        _check_coverage(request, covered, has_body=bool(body))
        if '"content-digest"' in covered:
            check_digest(request.header("content-digest", _LONGEST), body)
        return result

    def _check_input(self, components: Sequence[Item], given: Mapping[str, Any]) -> None:
        """Check the parameters of a signature. The library checked their types before."""
        if any(component.params for component in components):
            raise BadSignature("The signature covers a component with parameters; cover only whole components.")
        missing = [name for name in ("created", "keyid", "nonce") if name not in given]
        if missing:
            raise BadSignature(f"The signature must have the parameter {' and '.join(missing)}.")
        if len(given["nonce"]) not in _NONCE:
            raise BadSignature(f"The nonce must have {_NONCE.start} to {_NONCE.stop - 1} characters.")
        now = self._clock()
        if given["created"] > now + self._skew:
            raise BadSignature("The signature was created in the future; check the clocks of client and server.")
        if now - given["created"] > self._max_age:
            raise BadSignature(f"The signature is older than {self._max_age:g} s; sign again and check both clocks.")
        if now - self._skew > given.get("expires", now):
            raise BadSignature("The signature has expired; sign the request again.")


def _check_coverage(request: Received, covered: Mapping[str, str], *, has_body: bool) -> None:
    """Refuse a signature that does not cover the whole request. `covered` has the signature's components as keys."""
    missing = [] if '"@method"' in covered else ["@method"]
    if not covered.keys() & {'"@target-uri"', '"@request-target"'}:
        target = ["@path", "@query"] if "?" in request.request_target else ["@path"]
        missing += [name for name in target if f'"{name}"' not in covered]
    if has_body and '"content-digest"' not in covered:
        missing.append("content-digest")
    if missing:
        raise BadSignature(f"The signature must cover {' and '.join(missing)}.")


def _refusal_text(error: Exception) -> str:
    """Return the refusal for an error of the library: the library's text if it is about the caller's input."""
    reason = error.__cause__ or error
    if isinstance(reason, InvalidSignature):
        return _WRONG
    if isinstance(reason, HTTPMessageSignaturesException | StructuredFieldError):
        return f"{error}."
    return "The signature covers a component that cannot be signed."


class _Verifier(HTTPMessageVerifier, HTTPSignatureKeyResolver):
    """The library's verifier, with Ed25519, with keys by their id and with our own check of the parameters."""

    def __init__(
        self,
        key_of: Callable[[str], Ed25519PublicKey | None],
        check: Callable[[Sequence[Item], Mapping[str, Any]], None],
    ) -> None:
        super().__init__(signature_algorithm=ED25519, key_resolver=self)
        self._key_of = key_of
        self._check = check
        self._unused_key = Ed25519PrivateKey.generate().public_key()

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
        """Return the key of an id. For an unknown id, return an unused key.

        So a reply does not reveal whether the id exists: its text and its time are the same in both cases.
        """
        return self._key_of(key_id) or self._unused_key

    def validate_created_and_expires(self, sig_input: Any, max_age: object = None) -> None:  # noqa: ARG002
        """Check the parameters. The library calls this method before its expensive steps."""
        self._check(sig_input, sig_input.params)
