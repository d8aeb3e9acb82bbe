"""The feature *login*: users log in with FastMCP's auth provider, on any replica."""

from typing import TYPE_CHECKING

from fastmcp import FastMCP

from anyreplica.auth.authentication import Challenge
from anyreplica.components.discovery import Discovered
from anyreplica.feature import Feature, Parts, Position, Replica
from anyreplica.features.login.settings import LoginSettings
from anyreplica.http.limits import Body
from anyreplica.settings.errors import StartupError

if TYPE_CHECKING:
    from fastmcp.server.auth import AuthProvider
    from redis.asyncio import Redis

    from anyreplica.features.login.login import Login


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


def login_of(
    provider: "AuthProvider | None", settings: LoginSettings, redis: "Redis | None", body: Body
) -> "Login | None":
    """Return the login of a replica, or None if the server has none.

    The modules of logins are imported only if there is a login, because FastMCP's auth providers are large.

    Raises:
        StartupError: the replicas cannot use the login.
    """
    if provider is None and not settings.login_provider:
        return None
    check_login(provider, settings, settings.planned)
    from anyreplica.features.login.start import begin, begin_named  # noqa: PLC0415

    if provider is None:
        return begin_named(settings, redis, body)
    return begin(provider, settings, redis, body)


class UserLogin(Feature):
    """Serves the login that the server's code (`FastMCP(auth=…)`) or LOGIN_PROVIDER chooses."""

    settings: LoginSettings

    def check_server(self, mcp: FastMCP, components: Discovered, replicas: int) -> None:
        check_login(mcp.auth, self.settings, replicas)

    def attach(self, replica: Replica) -> Parts:
        login = login_of(replica.mcp.auth, self.settings, replica.redis, replica.limits.body)
        if login is None:
            return Parts()
        return Parts(
            tokens=[login],
            challenges=[Challenge(login.challenge_scopes, login.metadata)],
            first_routes=login.routes,
            middleware=[(Position.NEXT_TO_AUTHENTICATION, login.surround)],
        )
