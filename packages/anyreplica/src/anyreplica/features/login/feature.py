"""The feature *login*: users log in with FastMCP's auth provider, on any replica."""

from fastmcp import FastMCP

from anyreplica.auth.authentication import Challenge
from anyreplica.components.discovery import Discovered
from anyreplica.feature import Feature, Parts, Position, Replica
from anyreplica.features.login.configured import check_login, login_of


class UserLogin(Feature):
    """Serves the login that the server's code (`FastMCP(auth=…)`) or LOGIN_PROVIDER chooses."""

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
