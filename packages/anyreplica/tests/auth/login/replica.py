"""A replica whose login uses a small authorization server, and a client with another address than the attacker's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import Server, free_port
from tests.auth.issuer import Issuer
from tests.auth.login.fleets import COMMAND
from tests.auth.login.flow import OAuthClient
from tests.auth.login.upstream import upstream
from tests.replicas import KEYS

GOOD = "127.0.0.2"
"""The address of the good client. The other client has the address 127.0.0.1."""


@contextmanager
def served(folder: Path, **settings: str) -> Iterator[Server]:
    """Run a replica with a login at an authorization server of its own."""
    with Issuer().serving() as issuer, upstream(issuer) as provider:
        port = free_port()
        server = Server(
            folder / "log",
            command=COMMAND,
            MCP_PORT=str(port),
            PUBLIC_URL=f"http://127.0.0.1:{port}",
            JWKS=issuer.url,
            UPSTREAM=provider,
            AUTH="proxy",
            REQUEST_STATE_KEYS=KEYS,
            FASTMCP_HOME=str(folder / "home"),
            LOGIN_RATE_LIMIT="100000/m",
            AUTO_DISCOVER="false",
            **settings,
        )
        with server:
            yield server


def log_in(url: str) -> str:
    """Register and log in from the address of the good client, and return the access token."""
    token: str = OAuthClient(url, address=GOOD).log_in(url, scope="mcp")["access_token"]
    return token
