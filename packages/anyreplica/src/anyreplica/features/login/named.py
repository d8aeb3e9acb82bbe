"""The auth provider that the settings name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx2
from fastmcp.server.auth import AuthProvider

from anyreplica.features.login.settings import LoginSettings
from anyreplica.settings.errors import StartupError

if TYPE_CHECKING:
    from key_value.aio.protocols import AsyncKeyValue


def named_provider(settings: LoginSettings, storage: "AsyncKeyValue | None") -> AuthProvider:
    """Return the provider of LOGIN_PROVIDER. It stores its state in `storage`; None: in FastMCP's own files.

    Raises:
        StartupError: the identity provider does not answer, or FastMCP does not accept the settings.
    """
    name = settings.login_provider
    try:
        return _PROVIDERS[name](settings, {"client_storage": storage})
    except httpx2.HTTPError as error:
        text = f"LOGIN_ISSUER={settings.login_issuer}: the metadata of the identity provider cannot be read"
        raise StartupError(f"{text}: {str(error) or type(error).__name__}") from None
    except (ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise StartupError(f"LOGIN_PROVIDER={name}: {reason}") from None


def _client(settings: LoginSettings) -> dict[str, Any]:
    """Return the arguments of all providers with an application at the identity provider."""
    secret = settings.login_client_secret
    return {
        "client_id": settings.login_client_id,
        "client_secret": secret.get_secret_value() if secret else None,
        "base_url": settings.public_url,
        "required_scopes": list(settings.login_scopes) or None,
    }


def _discovery(settings: LoginSettings) -> str:
    return f"{settings.login_issuer}/.well-known/openid-configuration"


def _github(settings: LoginSettings, more: dict[str, Any]) -> AuthProvider:
    from fastmcp.server.auth.providers.github import GitHubProvider  # noqa: PLC0415  # import only what is used

    return GitHubProvider(**_client(settings), **more)


def _google(settings: LoginSettings, more: dict[str, Any]) -> AuthProvider:
    from fastmcp.server.auth.providers.google import GoogleProvider  # noqa: PLC0415

    return GoogleProvider(**_client(settings), **more)


def _azure(settings: LoginSettings, more: dict[str, Any]) -> AuthProvider:
    from fastmcp.server.auth.providers.azure import AzureProvider  # noqa: PLC0415

    return AzureProvider(**_client(settings), tenant_id=settings.login_tenant, **more)


def _auth0(settings: LoginSettings, more: dict[str, Any]) -> AuthProvider:
    from fastmcp.server.auth.providers.auth0 import Auth0Provider  # noqa: PLC0415

    audience = settings.login_audience
    return Auth0Provider(**_client(settings), config_url=_discovery(settings), audience=audience, **more)


def _workos(settings: LoginSettings, more: dict[str, Any]) -> AuthProvider:
    from fastmcp.server.auth.providers.workos import WorkOSProvider  # noqa: PLC0415

    return WorkOSProvider(**_client(settings), authkit_domain=settings.login_issuer, **more)


def _keycloak(settings: LoginSettings, _: dict[str, Any]) -> AuthProvider:
    from fastmcp.server.auth.providers.keycloak import KeycloakAuthProvider  # noqa: PLC0415

    return KeycloakAuthProvider(
        realm_url=settings.login_issuer,
        base_url=settings.public_url,
        required_scopes=list(settings.login_scopes) or None,
        audience=settings.login_audience or None,
    )


def _oidc(settings: LoginSettings, more: dict[str, Any]) -> AuthProvider:
    from fastmcp.server.auth.oidc_proxy import OIDCProxy  # noqa: PLC0415

    audience = settings.login_audience or None
    return OIDCProxy(**_client(settings), config_url=_discovery(settings), audience=audience, **more)


_PROVIDERS: dict[str, Callable[[LoginSettings, dict[str, Any]], AuthProvider]] = {
    "github": _github,
    "google": _google,
    "azure": _azure,
    "auth0": _auth0,
    "workos": _workos,
    "keycloak": _keycloak,
    "oidc": _oidc,
}
