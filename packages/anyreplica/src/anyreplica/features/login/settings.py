"""Settings of the login of users."""

from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from anyreplica.settings import CoreSettings
from anyreplica.settings.rate import Rate, parse
from anyreplica.settings.words import Seconds, WordList

_FIELDS = ("login_client_id", "login_client_secret", "login_issuer", "login_tenant", "login_audience", "login_scopes")
_CLIENT = frozenset({"login_client_id", "login_client_secret"})
NEEDS: dict[str, frozenset[str]] = {
    "github": _CLIENT,
    "google": _CLIENT,
    "azure": _CLIENT | {"login_tenant", "login_scopes"},
    "auth0": _CLIENT | {"login_issuer", "login_audience"},
    "workos": _CLIENT | {"login_issuer"},
    "keycloak": frozenset({"login_issuer"}),
    "oidc": _CLIENT | {"login_issuer"},
}
"""The settings that each provider needs."""
_ACCEPTS = {"keycloak": frozenset({"login_audience"}), "oidc": frozenset({"login_audience"})}
"""The settings that a provider accepts in addition to those that it needs. Each accepts `LOGIN_SCOPES`."""


class LoginSettings(CoreSettings):
    """Settings of the login of users, for servers that do not choose a provider in their code."""

    login_provider: Literal["", "github", "google", "azure", "auth0", "workos", "keycloak", "oidc"] = ""
    """Identity provider with which users log in. `oidc` is any provider of OpenID Connect. Empty: the provider that the
    server's code chooses (`FastMCP(auth=…)`), or no login."""
    login_client_id: str = ""
    """OAuth client ID (`client_id`) of this server at the identity provider."""
    login_client_secret: SecretStr | None = None
    """OAuth client secret (`client_secret`) of this server at the identity provider."""
    login_issuer: str = ""
    """URL of the issuer: of OpenID Connect (`oidc`), of the Auth0 tenant, of the AuthKit domain (`workos`), or of the
    Keycloak realm."""
    login_tenant: str = ""
    """ID of the Azure tenant (`tenant_id`)."""
    login_audience: str = ""
    """Audience that a token of the identity provider must have. Required with `auth0`, possible with `keycloak` and
    `oidc`."""
    login_scopes: WordList = ()
    """Scopes that every token must have, comma-separated. Required with `azure`. Empty: the default of the provider."""
    login_rate_limit: str = "600/m"
    """Rate limit for login requests from one IP address, such as `600/m`. A client registration counts as ten requests.
    A request beyond the limit gets HTTP 429. With `REDIS_URL`, the limit holds for all replicas
    together. Without `TRUSTED_PROXIES`, all clients behind a proxy or a routing mesh have the same address."""
    login_cache_seconds: Seconds = Field(30, ge=0, le=300)
    """Time for which a replica trusts a verified token of a login without another check, in seconds. A replica may
    accept a revoked token for this time. 0: check every request."""

    @field_validator("login_rate_limit")
    @classmethod
    def _rate_of_logins(cls, value: str) -> str:
        parse(value)
        return value

    @field_validator("login_issuer")
    @classmethod
    def _issuer(cls, value: str) -> str:
        if value and not value.startswith(("https://", "http://")):
            raise ValueError("not a URL; write it like https://login.example.com")
        return value.rstrip("/")

    @property
    def login_rate(self) -> Rate:
        """Rate limit for login requests from one IP address."""
        return parse(self.login_rate_limit)

    @property
    def chosen_login(self) -> str:
        return f"LOGIN_PROVIDER={self.login_provider}" if self.login_provider else ""

    @model_validator(mode="after")
    def _login_whole(self) -> Self:
        given = {name for name in _FIELDS if getattr(self, name)}
        if not self.login_provider:
            if given:
                raise ValueError(f"LOGIN_PROVIDER: required by {min(given).upper()}; set it")
            return self
        chosen = self.chosen_login
        needed = NEEDS[self.login_provider]
        if missing := sorted(needed - given):
            raise ValueError(f"{missing[0].upper()}: required by {chosen}; set it")
        if not self.public_url:
            raise ValueError(f"PUBLIC_URL: required by {chosen}; set it to the URL at which clients reach this server")
        accepted = needed | _ACCEPTS.get(self.login_provider, frozenset()) | {"login_scopes"}
        if unused := sorted(given - accepted):
            raise ValueError(f"{unused[0].upper()}: not used by {chosen}; unset it")
        return self
