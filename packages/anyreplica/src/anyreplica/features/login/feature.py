"""The feature *login*: users log in with FastMCP's auth provider, on any replica."""

from typing import TYPE_CHECKING

from fastmcp import FastMCP

from anyreplica.auth.authentication import Challenge
from anyreplica.components.discovery import Discovered
from anyreplica.feature import Feature, Parts, Position, Replica
from anyreplica.features.login.settings import LoginSettings
from anyreplica.settings.errors import StartupError

if TYPE_CHECKING:
    from fastmcp.server.auth import AuthProvider

_STATELESS = frozenset({"keycloak"})
"""The providers of `LOGIN_PROVIDER` that only verify tokens, so that replicas share nothing."""


def check_login(provider: "AuthProvider | None", settings: LoginSettings, replicas: int) -> None:
    """Check that so many replicas can use the login of a server.

    Raises:
        StartupError: they cannot; the text has the reason.
    """
    name = settings.login_provider
    if provider is not None:
        if name:
            text = f"the server's code chooses a login already ({type(provider).__name__}); unset it"
            raise StartupError(f"LOGIN_PROVIDER={name}: {text}")
        from anyreplica.features.login.providers import check_provider  # noqa: PLC0415

        check_provider(provider, settings, replicas)
    elif name and name not in _STATELESS and replicas > 1 and settings.redis_url is None:
        raise StartupError(
            f"REDIS_URL: required by LOGIN_PROVIDER={name} with {replicas} replicas, "
            "because replicas share clients, codes and tokens in Redis; set it"
        )


class UserLogin(Feature):
    """Serves the login that the server's code (`FastMCP(auth=…)`) or LOGIN_PROVIDER chooses."""

    settings: LoginSettings

    def check_server(self, mcp: FastMCP, components: Discovered, replicas: int) -> None:
        check_login(mcp.auth, self.settings, replicas)

    def attach(self, replica: Replica) -> Parts:
        provider = replica.mcp.auth
        if provider is None and not self.settings.login_provider:
            return Parts()
        check_login(provider, self.settings, self.settings.planned)
        # FastMCP's auth providers are large, so a server without a login does not import them.
        from anyreplica.features.login.login import begin  # noqa: PLC0415

        login = begin(provider, self.settings, replica.redis, replica.limits.body)
        return Parts(
            tokens=[login],
            challenges=[Challenge(login.challenge_scopes, login.metadata)],
            first_routes=login.routes,
            middleware=[(Position.NEXT_TO_AUTHENTICATION, login.surround)],
        )
