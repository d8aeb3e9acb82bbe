"""The auth provider that the settings name."""

from importlib import import_module
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
        module, _, kind = _PROVIDERS[name].partition(":")
        provider: AuthProvider = getattr(import_module(module), kind)(**_arguments(settings, storage))
    except httpx2.HTTPError as error:
        text = f"LOGIN_ISSUER={settings.login_issuer}: the metadata of the identity provider cannot be read"
        raise StartupError(f"{text}: {str(error) or type(error).__name__}") from None
    except (ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise StartupError(f"LOGIN_PROVIDER={name}: {reason}") from None
    return provider


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
