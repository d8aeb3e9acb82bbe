"""Authentication of callers that sign their requests (RFC 9421), and the check of the signatures."""

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import http_sf
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, VerifyResult
from http_message_signatures.algorithms import ED25519
from http_message_signatures.exceptions import HTTPMessageSignaturesException
from http_sf import StructuredFieldError
from http_sf.compat import Item
from starlette.types import Receive, Scope

from anyreplica.auth.authentication import BadSignature
from anyreplica.auth.caller import Caller, PublicKeys
from anyreplica.features.signatures.nonces import Nonces, NoncesFull
from anyreplica.features.signatures.settings import SignatureSettings
from anyreplica.http.limits import Body, replay
from anyreplica.http.request_record import headers_of

if TYPE_CHECKING:
    from redis.asyncio import Redis

_HOST = re.compile(r"[^/?#@\\\s]+")

_TARGET = re.compile(r"/[^?#]*(\?[^#]*)?")
"""A Host and a target of these forms make a URL that splits into the same parts again. A Host with a slash would change
the path."""

_OWN = frozenset({b"host", b"signature-input", b"signature"})

_HASHES = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}
"""The algorithms that RFC 9530, section 5, calls active. Section 2 says to ignore all others."""

_NONCE = range(8, 129)
"""Allowed numbers of characters in a nonce."""

_LONGEST_INPUT = 4096

_LONGEST = 512
"""Maximum number of characters: the first in Signature-Input, the second in Signature and in Content-Digest."""

_WRONG = "The signature does not match: another key signed the request, or the request changed after signing."


class SignedRequests:
    """The check of signed requests. `keys` has the public keys; `body` reads the bodies that the signatures cover."""

    def __init__(self, settings: SignatureSettings, keys: PublicKeys, redis: "Redis | None", body: Body) -> None:
        self.required = settings.signing == "require"
        self._keys = keys
        self._body = body
        most, skew = settings.signing_max_age_seconds, settings.signing_skew_seconds
        nonces = Nonces(redis, settings.mcp_name, most + 2 * skew)
        self._signatures = Signatures(keys.public_key, nonces, max_age=most, skew=skew)

    async def check(self, scope: Scope, receive: Receive, shown: Caller | None) -> tuple[Caller | None, Receive]:
        """Return the caller that signed a request, and a `receive` that returns the request body.

        `shown` is the caller of the key or token in the request, if any. This method returns `shown` for a request
        without a signature, or None if the settings require a signature. It reads the body of a signed request, so
        the returned `receive` returns that body again.

        Raises:
            BadSignature: the signature is wrong, or belongs to another caller than `shown`.
            Refused: the body is refused.
            ClientGone: the client closed the connection.
        """
        if not is_signed(scope["headers"]):
            return (None if self.required else shown), receive
        body = await self._body.read(receive, headers_of(scope).get(b"content-length"))
        caller = self._keys.signer(await self._signatures.check(scope, body))
        if caller is None or (shown is not None and shown.identity != caller.identity):
            raise BadSignature("The signature and the Authorization header belong to different callers.")
        return caller, replay(body, receive)


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
            fresh = await self._nonces.claim(key_id, nonce)
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
