"""The login of a server: its start, the routes of its auth provider, and the callers of verified tokens."""

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastmcp.server.auth import AuthProvider
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import RevocationOptions
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from anyreplica.auth.authentication import METADATA
from anyreplica.auth.caller import Caller, VerifiedTokens, caller_of_token
from anyreplica.auth.client_identity import Addresses
from anyreplica.features.login.limits import LOGIN_UNAVAILABLE, Attempts, LoginLimits, StoredBytes
from anyreplica.features.login.providers import added_middleware, check_provider, issuing, keep_spelling, named_provider
from anyreplica.features.login.revocation import Revocation, with_revocation
from anyreplica.features.login.settings import LoginSettings
from anyreplica.features.login.shared import MOST_WAITING, LoginUnavailable, SharedLogins, SingleUse, noting_outages
from anyreplica.http.limits import Body, InFlight
from anyreplica.http.responses import Refused
from anyreplica.settings.rate import Rate

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_LONGEST = 16 * 1024

_ISSUER = "/.well-known/oauth-authorization-server"
"""Path of the metadata of an issuer (RFC 8414, section 3)."""


class Identities:
    """Makes callers from verified tokens. `rate` is the rate limit of each caller."""

    def __init__(self, provider: AuthProvider, rate: Rate) -> None:
        self._provider = type(provider).__name__
        self._own = {str(part.issuer_url) for part in issuing(provider)}
        self._rate = rate

    def caller(self, found: AccessToken) -> Caller:
        """Return the caller of a verified token, see `caller_of_token`."""
        issuer = self._issuer(found.claims or {})
        return caller_of_token(found, issuer, kind="login", verifier=self._provider, rate=self._rate)

    def _issuer(self, claims: dict[str, Any]) -> str | None:
        """Return the issuer of a user, or None if the token does not name an issuer."""
        issuer = claims.get("iss")
        if issuer in self._own:  # the server made this token from an identity assertion (ID-JAG)
            issuer = claims.get("assertion_iss", issuer)
        return str(issuer) if issuer else None


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


def begin(provider: AuthProvider | None, settings: LoginSettings, redis: "Redis | None", body: Body) -> Login:
    """Prepare a provider for replicas, and return the login. `provider`: None if the settings name it.

    Raises:
        StartupError: the replicas cannot use the provider.
    """
    # Requests that wait for Redis hold at most half of the places of logins.
    most_waiting = min(MOST_WAITING, max(1, settings.max_in_flight // 2))
    shared = None if redis is None else SharedLogins(redis, settings.mcp_name, most_waiting)
    if provider is None:
        provider = _named(settings, shared)
    check_provider(provider, settings, settings.planned)
    keep_spelling(provider)
    stored = StoredBytes(shared)
    revocations: list[Revocation] = []
    if shared is None or not issuing(provider):
        routes: list[BaseRoute] = list(provider.get_routes(mcp_path=settings.mcp_path))
    else:
        routes, revocations = _share(provider, settings, shared)
    if issuing(provider):
        _limit(provider, None if shared is not None else stored)
    attempts = Attempts(settings.login_rate, shared)
    limits = LoginLimits(body, attempts, stored, Addresses(settings.trusted_proxies), settings.max_in_flight)
    routes += _below_issuer(provider, routes)
    return Login(provider, settings, [limits.guarded(route) for route in routes], revocations)


def _metadata_url(provider: AuthProvider, routes: Sequence[BaseRoute]) -> str:
    base = provider.resource_base_url or provider.base_url
    for route in routes:
        if base is not None and isinstance(route, Route) and route.path.startswith(METADATA):
            return f"{urlsplit(str(base)).scheme}://{urlsplit(str(base)).netloc}{route.path}"
    return ""


def _below_issuer(provider: AuthProvider, routes: Sequence[BaseRoute]) -> list[Route]:
    """Return the route of the metadata of an issuer that has a path, where clients look first (RFC 8414, section 3)."""
    path = urlsplit(str(provider.base_url or "")).path.rstrip("/")
    found = [route for route in routes if isinstance(route, Route) and route.path == _ISSUER]
    return [Route(_ISSUER + path, route.app, methods=list(route.methods or ())) for route in found if path]


def _named(settings: LoginSettings, shared: SharedLogins | None) -> AuthProvider:
    storage = None
    if shared is not None and settings.request_state_ring:
        from anyreplica.features.login.storage import LoginStorage  # noqa: PLC0415

        storage = LoginStorage(shared, settings.request_state_ring)
    return named_provider(settings, storage)


def _limit(provider: AuthProvider, stored: StoredBytes | None) -> None:
    """Limit what anybody can cause at a provider that issues tokens. `stored`: None if replicas share their state."""
    # Their import takes 150 ms, which a server with a token verifier saves.
    from fastmcp.server.auth import OAuthProxy  # noqa: PLC0415

    from anyreplica.features.login.assertions import UsedAssertions, assertion_id  # noqa: PLC0415
    from anyreplica.features.login.documents import ClientDocuments  # noqa: PLC0415
    from anyreplica.features.login.sharing import limit_storage  # noqa: PLC0415
    from anyreplica.features.login.storage import refuse_large_registrations  # noqa: PLC0415
    from anyreplica.mcp.compat.oauth_proxy import limit_clients  # noqa: PLC0415

    documents = ClientDocuments()
    # With shared state, Redis has the used assertions, see `revocation.protect_client_assertions`.
    claim = None if stored is None else UsedAssertions().claim
    for part in issuing(provider):
        refuse_large_registrations(part)
        if isinstance(part, OAuthProxy):
            limit_clients(part, documents, assertion_id, claim)
            if stored is not None:
                limit_storage(part, stored)


def _share(
    provider: AuthProvider, settings: LoginSettings, shared: SharedLogins
) -> tuple[list[BaseRoute], list[Revocation]]:
    """Share the state of a provider and return its routes and the revocations of its tokens."""
    # Their import takes 150 ms, which a server with a token verifier saves.
    from fastmcp.server.auth import OAuthProxy  # noqa: PLC0415

    from anyreplica.features.login.sharing import share_provider, share_proxy  # noqa: PLC0415

    once, parts = SingleUse(shared), issuing(provider)
    proxies = [part for part in parts if isinstance(part, OAuthProxy)]
    for proxy in proxies:
        proxy.revocation_options = RevocationOptions(enabled=True)
    routes: list[BaseRoute] = list(provider.get_routes(mcp_path=settings.mcp_path))
    for part in parts:
        if isinstance(part, OAuthProxy):
            share_proxy(part, shared, once, settings)
        else:
            share_provider(part, shared, once)
    revocations = [Revocation(proxy, once) for proxy in proxies]
    for revocation in revocations:
        routes = with_revocation(routes, revocation)
    return routes, revocations
