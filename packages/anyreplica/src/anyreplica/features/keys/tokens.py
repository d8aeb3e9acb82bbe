"""Authentication with tokens (JWT, RFC 7519) of an authorization server. FastMCP's verifiers check the tokens."""

import json
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx2
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.utilities.auth import decode_jwt_header

from anyreplica.auth.caller import Caller, VerifiedTokens, digest
from anyreplica.features.keys.settings import KeySettings
from anyreplica.settings.errors import StartupError
from anyreplica.settings.rate import Rate

logger = logging.getLogger(__name__)

_TRUSTED_SECONDS = 30.0
"""Time for which the cache keeps a verified token. The verifier caches the issuer's keys, too. If the issuer withdraws
a key, a replica may accept the tokens of that key for the sum of both times."""
_ANSWER_SECONDS = 5.0
_ASKED_AGAIN_SECONDS = 5.0
"""Minimum time between two requests of a verifier to the issuer for an unknown key. No caller can shorten this time."""
_LONGEST = 16 * 1024
_DATES = ("exp", "nbf", "iat")
_YEAR_10000 = 253_402_300_800
"""The year 10000 in seconds since the epoch. A later date is a mistake, for example a time in milliseconds. A token
with such a date would be valid for ever."""
_LONGEST_NAME = 255
"""Maximum number of characters in a `sub` claim (OpenID Connect Core, section 2)."""


class Tokens:
    """The verified identities of callers that send a token.

    Each algorithm has its own verifier, and a verifier accepts only keys of its own type. So a verifier never uses a
    public key as a shared secret (RFC 8725, section 3.1).

    Raises:
        StartupError: the JWKS file cannot be read or is not a JWKS.
    """

    def __init__(
        self,
        issuer: str,
        audience: Iterable[str],
        jwks: str,
        algorithms: Iterable[str],
        rate: Rate,
        required_scopes: Sequence[str] = (),
    ) -> None:
        remote = jwks.startswith(("http://", "https://"))
        transport = None if remote else _File(_checked(jwks))
        self._client = httpx2.AsyncClient(transport=transport, timeout=_ANSWER_SECONDS)
        self._verifiers = {
            algorithm: JWTVerifier(
                jwks_uri=jwks if remote else "http://localhost/",
                issuer=issuer,
                audience=list(audience),
                algorithm=algorithm,
                http_client=self._client,
                jwks_refresh_interval=_ASKED_AGAIN_SECONDS,
            )
            for algorithm in algorithms
        }
        self._issuer = issuer
        self.required_scopes = required_scopes
        """The scopes that every token must have."""
        self._rate = rate
        self._verified = VerifiedTokens(_TRUSTED_SECONDS)

    @classmethod
    def of(cls, settings: KeySettings) -> "Tokens | None":
        """Return the `Tokens` that the settings describe, or None if they name no issuer."""
        if not settings.auth_jwt_issuer:
            return None
        where = settings.auth_jwt_issuer, settings.auth_jwt_audience, settings.auth_jwt_jwks
        return cls(*where, settings.auth_jwt_algorithms, settings.rate, settings.auth_jwt_scopes)

    async def close(self) -> None:
        """Close the connections to the issuer."""
        await self._client.aclose()

    def known(self, token: bytes) -> Caller | None:
        """Return None: a token must be verified first."""

    async def caller(self, token: bytes) -> Caller | None:
        """Return the caller that a token identifies, or None if the token is invalid, whatever the reason."""
        if len(token) > _LONGEST:
            return None
        known = self._verified.get(token)
        if known is not None:
            return known
        found = await self._check(token)
        if found is None:
            return None
        self._verified.put(token, *found)
        return found[0]

    async def _check(self, token: bytes) -> tuple[Caller, float] | None:
        """Verify a token. Return its caller and its expiry time, in seconds since the epoch."""
        try:
            text = token.decode("ascii")
            verifier = self._verifiers.get(decode_jwt_header(text).get("alg", ""))
            # An algorithm that the settings do not list, such as none or HS256, has no verifier.
            found = await verifier.verify_token(text) if verifier is not None else None
        except Exception as error:  # noqa: BLE001  # bytes of a caller cause many kinds of errors in libraries
            logger.debug("Token refused: %s", type(error).__name__)
            return None
        if found is None or not _is_current(found.claims) or (name := _caller_name(found.claims)) is None:
            return None
        identity = f"jwt:{digest(self._issuer, name)[:32]}"
        return Caller(name, identity, rate=self._rate, token=found), found.claims["exp"]


def _is_current(claims: dict[str, Any]) -> bool:
    """Return whether a token has an `exp` claim and is valid now.

    FastMCP's verifier ignores `nbf` and `iat`, and accepts a token without `exp`.
    """
    if not all(_is_date(claims[name]) for name in _DATES if name in claims):
        return False
    return bool(claims.get("nbf", 0) <= time.time() < claims.get("exp", 0))


def _is_date(value: object) -> bool:
    """Return whether a claim is a NumericDate (RFC 7519, section 2). NaN and infinity, which `json` reads, are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _YEAR_10000


def _caller_name(claims: dict[str, Any]) -> str | None:
    """Return the caller's name, or None if the claims contain no valid name.

    A token without `sub` belongs to a client (`client_id`, RFC 9068; `azp`, OpenID Connect). The names of clients have
    their own prefix, so that no subject can get a client's name. This function does not use FastMCP's
    `AccessToken.client_id`: that attribute mixes the three claims, and is "unknown" without them.
    """
    if "sub" in claims:
        prefix, who = "jwt", claims["sub"]
    else:
        prefix, who = "jwt-client", claims.get("client_id", claims.get("azp"))
    if not isinstance(who, str) or not who or not who.isprintable() or len(who) > _LONGEST_NAME:
        return None
    return f"{prefix}:{who}"


class _File(httpx2.AsyncBaseTransport):
    """A transport that answers every request with the content of a file, because the verifiers read keys from a URL."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return a response with the current content of the file."""
        try:
            return httpx2.Response(200, content=self._path.read_bytes(), request=request)
        except OSError as error:
            raise httpx2.ConnectError(f"{self._path}: {error.strerror}", request=request) from None


def _checked(file: str) -> Path:
    path = Path(file)
    try:
        keys = json.loads(path.read_bytes())["keys"]
    except OSError as error:
        raise StartupError(f"AUTH_JWT_JWKS: {file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError):
        keys = None
    if not isinstance(keys, list) or not keys:
        raise StartupError(f'AUTH_JWT_JWKS: {file} is not a JWKS; a JWKS looks like {{"keys": [{{"kty": "RSA", …}}]}}')
    return path
