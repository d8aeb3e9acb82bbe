"""The start of the login of a replica."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastmcp.server.auth import AuthProvider
from mcp.server.auth.settings import RevocationOptions
from starlette.routing import BaseRoute, Route

from anyreplica.auth.client_identity import Addresses
from anyreplica.features.login.limits import Attempts, LoginLimits, StoredBytes
from anyreplica.features.login.login import Login
from anyreplica.features.login.providers import check_provider, issuing, keep_spelling
from anyreplica.features.login.settings import LoginSettings
from anyreplica.features.login.shared import MOST_WAITING, SharedLogins, SingleUse
from anyreplica.http.limits import Body

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from anyreplica.features.login.revocation import Revocation

_ISSUER = "/.well-known/oauth-authorization-server"
"""Path of the metadata of an issuer (RFC 8414, section 3)."""


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


def _below_issuer(provider: AuthProvider, routes: Sequence[BaseRoute]) -> list[Route]:
    """Return the route of the metadata of an issuer that has a path, where clients look first (RFC 8414, section 3)."""
    path = urlsplit(str(provider.base_url or "")).path.rstrip("/")
    found = [route for route in routes if isinstance(route, Route) and route.path == _ISSUER]
    return [Route(_ISSUER + path, route.app, methods=list(route.methods or ())) for route in found if path]


def _named(settings: LoginSettings, shared: SharedLogins | None) -> AuthProvider:
    from anyreplica.features.login.named import named_provider  # noqa: PLC0415

    storage = None
    if shared is not None and settings.request_state_ring:
        from anyreplica.features.login.storage import LoginStorage  # noqa: PLC0415

        storage = LoginStorage(shared, settings.request_state_ring)
    return named_provider(settings, storage)


def _limit(provider: AuthProvider, stored: StoredBytes | None) -> None:
    """Limit what anybody can cause at a provider that issues tokens. `stored`: None if replicas share their state."""
    # Their import takes 150 ms, which a server with a token verifier saves.
    from fastmcp.server.auth import OAuthProxy  # noqa: PLC0415

    from anyreplica.features.login import compat  # noqa: PLC0415
    from anyreplica.features.login.assertions import UsedAssertions  # noqa: PLC0415
    from anyreplica.features.login.documents import ClientDocuments  # noqa: PLC0415
    from anyreplica.features.login.registration import refuse_large_registrations  # noqa: PLC0415
    from anyreplica.features.login.sharing import limit_storage  # noqa: PLC0415

    documents = ClientDocuments()
    used = None if stored is None else UsedAssertions()
    for part in issuing(provider):
        refuse_large_registrations(part)
        if isinstance(part, OAuthProxy):
            compat.limit_clients(part, documents, used)
            if stored is not None:
                limit_storage(part, stored)


def _share(
    provider: AuthProvider, settings: LoginSettings, shared: SharedLogins
) -> "tuple[list[BaseRoute], list[Revocation]]":
    """Share the state of a provider and return its routes and the revocations of its tokens."""
    # Their import takes 150 ms, which a server with a token verifier saves.
    from fastmcp.server.auth import OAuthProxy  # noqa: PLC0415

    from anyreplica.features.login.revocation import Revocation, with_revocation  # noqa: PLC0415
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
