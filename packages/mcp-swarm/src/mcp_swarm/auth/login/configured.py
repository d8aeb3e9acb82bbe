"""The login that the server's code (`FastMCP(auth=…)`) or the settings choose.

The modules of logins are imported only if there is a login, because FastMCP's auth providers are large.
"""

from typing import TYPE_CHECKING

from mcp_swarm.http.body import Body
from mcp_swarm.settings import Settings

if TYPE_CHECKING:
    from fastmcp.server.auth import AuthProvider
    from redis.asyncio import Redis

    from mcp_swarm.auth.login.login import Login


def check_login(provider: "AuthProvider | None", settings: Settings, replicas: int) -> None:
    """Check that so many replicas can use the login of a server.

    Raises:
        StartupError: they cannot; the text has the reason.
    """
    if provider is not None:
        from mcp_swarm.auth.login.providers import check_provider  # noqa: PLC0415

        check_provider(provider, settings, replicas)


def login_of(provider: "AuthProvider | None", settings: Settings, redis: "Redis | None", body: Body) -> "Login | None":
    """Return the login of a replica, or None if the server has none.

    Raises:
        StartupError: the replicas cannot use the login.
    """
    if provider is None:
        return None
    from mcp_swarm.auth.login.start import begin  # noqa: PLC0415

    return begin(provider, settings, redis, body)
