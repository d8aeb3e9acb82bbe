"""The auth providers of a server: the one that the settings name, and the reasons why replicas cannot use one."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx2
from fastmcp.server.auth import AuthProvider, MultiAuth, OAuthProvider, RemoteAuthProvider
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware

from anyreplica.features.login.settings import LoginSettings
from anyreplica.settings.errors import StartupError

if TYPE_CHECKING:
    from key_value.aio.protocols import AsyncKeyValue

_AS_SPELLED = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))

_PROVIDERS: dict[str, str] = {
    "github": "fastmcp.server.auth.providers.github:GitHubProvider",
    "google": "fastmcp.server.auth.providers.google:GoogleProvider",
    "azure": "fastmcp.server.auth.providers.azure:AzureProvider",
    "auth0": "fastmcp.server.auth.providers.auth0:Auth0Provider",
    "workos": "fastmcp.server.auth.providers.workos:WorkOSProvider",
    "keycloak": "fastmcp.server.auth.providers.keycloak:KeycloakAuthProvider",
    "oidc": "fastmcp.server.auth.oidc_proxy:OIDCProxy",
}
"""The module and the class of each provider. Only the module of the chosen one is imported."""


def named_provider(settings: LoginSettings, storage: "AsyncKeyValue | None") -> AuthProvider:
    """Return the provider of LOGIN_PROVIDER. It stores its state in `storage`; None: in FastMCP's own files.

    Raises:
        StartupError: the identity provider does not answer, or FastMCP does not accept the settings.
    """
    name = settings.login_provider
    try:
        module, _, kind = _PROVIDERS[name].partition(":")
        provider: AuthProvider = getattr(import_module(module), kind)(**_arguments(settings, storage))
    except httpx2.HTTPError as error:
        text = f"LOGIN_ISSUER={settings.login_issuer}: the metadata of the identity provider cannot be read"
        raise StartupError(f"{text}: {str(error) or type(error).__name__}") from None
    except (ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise StartupError(f"LOGIN_PROVIDER={name}: {reason}") from None
    return provider


def _arguments(settings: LoginSettings, storage: "AsyncKeyValue | None") -> dict[str, Any]:
    """Return the arguments of the class of LOGIN_PROVIDER."""
    issuer, audience = settings.login_issuer, settings.login_audience or None
    common = {"base_url": settings.public_url, "required_scopes": list(settings.login_scopes) or None}
    if settings.login_provider == "keycloak":  # it only verifies tokens
        return {**common, "realm_url": issuer, "audience": audience}
    discovery = {"config_url": f"{issuer}/.well-known/openid-configuration", "audience": audience}
    own: dict[str, dict[str, Any]] = {
        "azure": {"tenant_id": settings.login_tenant},
        "auth0": discovery,
        "oidc": discovery,
        "workos": {"authkit_domain": issuer},
    }
    secret = settings.login_client_secret
    return {
        **common,
        **own.get(settings.login_provider, {}),
        "client_id": settings.login_client_id,
        "client_secret": secret.get_secret_value() if secret else None,
        "client_storage": storage,
    }


def parts_of(provider: AuthProvider) -> Iterator[AuthProvider]:
    """Yield a provider and the providers inside it (`MultiAuth`)."""
    yield provider
    if isinstance(provider, MultiAuth):
        for part in (provider.server, *provider.verifiers):
            if part is not None:
                yield from parts_of(part)


def issuing(provider: AuthProvider) -> list[OAuthProvider]:
    """Return the parts of a provider that issue tokens, and therefore store state."""
    return [part for part in parts_of(provider) if isinstance(part, OAuthProvider)]


def check_provider(provider: AuthProvider, settings: LoginSettings, replicas: int) -> None:
    """Check that so many replicas can use a provider with these settings.

    Raises:
        StartupError: they cannot; the text has the reason.
    """
    added_middleware(provider)
    for part in issuing(provider) if replicas > 1 else ():
        _check_shareable(part, settings, f"{replicas} replicas")


def keep_spelling(provider: AuthProvider) -> None:
    """Spell the issuers of a provider in its metadata as the issuers spell themselves in their tokens.

    Clients compare the two byte by byte (RFC 8414, section 3.3), and pydantic's type for URLs adds a slash to a URL
    without a path. The token verifier has the spelling of the tokens.
    """
    for part in parts_of(provider):
        if isinstance(part, RemoteAuthProvider):
            found = getattr(part.token_verifier, "issuer", None)
            issuers = [found] if isinstance(found, str) else found or []
            spelled = {f"{issuer}/": _AS_SPELLED.validate_python(issuer) for issuer in issuers}
            part.authorization_servers = [spelled.get(str(each), each) for each in part.authorization_servers]


def _check_shareable(part: OAuthProvider, settings: LoginSettings, replicas: str) -> None:
    name = type(part).__name__
    if any(kind.__name__ == "InMemoryOAuthProvider" for kind in type(part).__mro__):
        raise StartupError(
            f"FastMCP(auth={name}): not possible with {replicas}, because this provider stores clients and tokens in "
            "the memory of one replica; use another provider"
        )
    if settings.redis_url is None:
        raise StartupError(
            f"REDIS_URL: required by the login ({name}) with {replicas}, "
            "because replicas share clients, codes and tokens in Redis; set it"
        )


def added_middleware(provider: AuthProvider) -> Sequence[Middleware]:
    """Return the middleware that a provider adds to FastMCP's own middleware for authentication.

    FastMCP's own middleware is left out: the authenticator of this package does its work.

    Raises:
        StartupError: the provider replaces FastMCP's middleware.
    """
    found: list[Middleware] = list(provider.get_middleware())
    for each in found:
        if _class(each) is AuthenticationMiddleware and type(each.kwargs.get("backend")) is not BearerAuthBackend:
            raise StartupError(
                f"FastMCP(auth={type(provider).__name__}): get_middleware returns an authentication backend of its "
                "own, which anyreplica does not use; implement verify_token instead"
            )
    return [each for each in found if _class(each) not in (AuthenticationMiddleware, AuthContextMiddleware)]


def _class(middleware: Middleware) -> object:
    return middleware.cls
