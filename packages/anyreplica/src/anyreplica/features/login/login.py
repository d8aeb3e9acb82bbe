"""The login of a server: the routes of its auth provider, and the callers of verified tokens."""

import json
import logging
import re
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from fastmcp.server.auth import AccessToken as FastMCPAccessToken
from fastmcp.server.auth import AuthProvider
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.provider import AccessToken
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from anyreplica.auth.authentication import METADATA
from anyreplica.auth.caller import Caller, VerifiedTokens, digest
from anyreplica.features.login.limits import LOGIN_UNAVAILABLE
from anyreplica.features.login.providers import added_middleware, issuing
from anyreplica.features.login.revocation import Revocation
from anyreplica.features.login.settings import LoginSettings
from anyreplica.features.login.shared import LoginUnavailable, noting_outages
from anyreplica.http.limits import InFlight
from anyreplica.http.refusal import Refused
from anyreplica.settings.rate import Rate

logger = logging.getLogger(__name__)

_LONGEST_NAME = 255
"""Maximum number of characters in a `sub` claim (OpenID Connect Core, section 2)."""

_SHORT = re.compile(r"[A-Za-z0-9._-]{1,40}")
"""The name of a provider inside `MultiAuth` that its author chose. FastMCP's own names are long."""

_LONGEST = 16 * 1024


class Identities:
    """Makes callers from verified tokens. `rate` is the rate limit of each caller."""

    def __init__(self, provider: AuthProvider, rate: Rate) -> None:
        self._provider = type(provider).__name__
        self._own = {str(part.issuer_url) for part in issuing(provider)}
        self._rate = rate

    def caller(self, found: AccessToken) -> Caller:
        """Return the caller of a verified token.

        The caller is the user (`sub`) of one issuer (`iss`). Two clients of the same user are the same caller. A token
        without a user belongs to its client.
        """
        claims: dict[str, Any] = found.claims or {}
        source, client = _source(found)
        subject = found.subject or claims.get("sub")
        kind, who = ("login", subject) if isinstance(subject, str) and subject else ("login-client", client)
        issuer = self._issuer(claims)
        name = who if issuer is None else f"{who}@{issuer.removeprefix('https://').rstrip('/')}"
        if source is not None:
            name = f"{name}@{source if _SHORT.fullmatch(source) else digest(source)[:8]}"
        if not name.isprintable() or len(name) > _LONGEST_NAME:
            name = f"sha256-{digest(name)[:32]}"
        identity = f"{kind}:{digest(issuer or self._provider, who, source or '')[:32]}"
        return Caller(f"{kind}:{name}", identity, rate=self._rate, token=_with_claims(found))

    def _issuer(self, claims: dict[str, Any]) -> str | None:
        """Return the issuer of a user, or None if the token does not name an issuer."""
        issuer = claims.get("iss")
        if issuer in self._own:  # the server made this token from an identity assertion (ID-JAG)
            issuer = claims.get("assertion_iss", issuer)
        return str(issuer) if issuer else None


def _with_claims(found: AccessToken) -> FastMCPAccessToken:
    """Return a token as FastMCP's type. FastMCP's proxy returns the SDK's type for an identity assertion."""
    if isinstance(found, FastMCPAccessToken):
        return found
    return FastMCPAccessToken(**found.model_dump(exclude={"claims"}), claims=found.claims or {})


def _source(found: AccessToken) -> tuple[str | None, str]:
    """Return the name of the provider inside `MultiAuth` that verified a token, or None, and the id of the client."""
    client = getattr(found, "original_client_id", None)
    if client is None:
        return None, found.client_id
    return str(json.loads(found.client_id)[0]), str(client)


class Login:
    """The login of one replica.

    Args:
        provider: FastMCP's auth provider.
        routes: the routes of the provider, with their checks.
        revocations: the revocations of the provider's tokens.

    Attributes:
        required_scopes: the scopes that every token must have.
        challenge_scopes: the scopes that a client without a token should ask for.
        metadata: URL of the protected resource metadata (RFC 9728), or an empty text if there is none.
    """

    def __init__(
        self,
        provider: AuthProvider,
        settings: LoginSettings,
        routes: Sequence[BaseRoute],
        revocations: Sequence[Revocation],
    ) -> None:
        self.routes = list(routes)
        self.required_scopes = tuple(provider.required_scopes)
        self.challenge_scopes = tuple(provider.challenge_scopes)
        self.metadata = _metadata_url(provider, routes)
        self._provider = provider
        self._identities = Identities(provider, settings.rate)
        self._revocations = revocations
        self._verified = VerifiedTokens(settings.login_cache_seconds)
        self._verifying = InFlight(settings.max_in_flight, "tokens are being verified (MAX_IN_FLIGHT)")

    def surround(self, app: ASGIApp) -> ASGIApp:
        """Put the middleware that the provider adds to FastMCP's own around an app."""
        for cls, args, kwargs in reversed(added_middleware(self._provider)):
            app = cls(app, *args, **kwargs)
        return app

    def known(self, token: bytes) -> Caller | None:
        """Return None: the caller is known only after `caller` has set the context of FastMCP."""

    async def caller(self, token: bytes) -> Caller | None:
        """Return the caller that a token identifies, or None if the token is invalid.

        Raises:
            Refused: Redis cannot be reached, or too many tokens are being verified (503).
        """
        caller = await self._caller(token)
        if caller is not None:
            auth_context_var.set(caller)  # as FastMCP's AuthContextMiddleware does, for the SDK's get_access_token
        return caller

    async def _caller(self, token: bytes) -> Caller | None:
        known = self._verified.get(token)
        if known is not None or len(token) > _LONGEST:
            return known
        self._verifying.acquire(None)
        try:
            with noting_outages() as outage:
                found = await self._verify(token)
        finally:
            self._verifying.release()
        if outage.noted:
            raise Refused(503, LOGIN_UNAVAILABLE, headers={"Retry-After": "5"})
        if found is None:
            return None
        caller = self._identities.caller(found)
        self._verified.put(token, caller, found.expires_at)
        return caller

    async def _verify(self, token: bytes) -> AccessToken | None:
        try:
            text = token.decode("ascii")
            found = await self._provider.verify_token(text)
            if found is None or (found.expires_at and found.expires_at < time.time()):
                return None
            for revocation in self._revocations:
                if await revocation.is_revoked(text):
                    return None
        except LoginUnavailable:
            return None
        except Exception as error:  # noqa: BLE001  # bytes of a caller cause many kinds of errors in libraries
            logger.debug("Token refused: %s", type(error).__name__)
            return None
        return found


def _metadata_url(provider: AuthProvider, routes: Sequence[BaseRoute]) -> str:
    base = provider.resource_base_url or provider.base_url
    for route in routes:
        if base is not None and isinstance(route, Route) and route.path.startswith(METADATA):
            return f"{urlsplit(str(base)).scheme}://{urlsplit(str(base)).netloc}{route.path}"
    return ""
