"""A replica whose login uses a small authorization server, and a client with another address than the attacker's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from conftest import Server, free_port
from tests.auth.issuer import Issuer
from tests.auth.login.browser import Browser
from tests.auth.login.flow import REDIRECT, OAuthClient
from tests.auth.login.upstream import upstream
from tests.replicas import KEYS

GOOD = "127.0.0.2"
"""The address of the good client. The other client has the address 127.0.0.1."""


def from_address(address: str = GOOD) -> httpx.Client:
    """Return a client with an address of its own."""
    return httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=60)


@contextmanager
def served(folder: Path, module: str = "tests.auth.login.server", **settings: str) -> Iterator[Server]:
    """Run a replica with a login at an authorization server of its own."""
    with Issuer().serving() as issuer, upstream(issuer) as provider:
        port = free_port()
        server = Server(
            folder / "log",
            command=("-m", module),
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
        try:
            server.wait_ready()
            yield server
        finally:
            server.stop()


def log_in(url: str) -> str:
    """Register and log in from the address of the good client, and return the access token."""
    client, browser = OAuthClient(url), Browser()
    browser.http.close()
    browser.http = from_address()
    with from_address() as http:
        registered = http.post(f"{url}/register", json={"redirect_uris": [REDIRECT], "scope": "mcp"})
        assert registered.status_code == 201, registered.text
        client.id = registered.json()["client_id"]
        answer = browser.log_in(client.authorization(url, scope="mcp"), REDIRECT)
        assert "code" in answer, answer
        said = {"grant_type": "authorization_code", "code": answer["code"], "redirect_uri": REDIRECT}
        tokens = http.post(f"{url}/token", data={**said, "client_id": client.id, "code_verifier": client.verifier})
    browser.close()
    assert tokens.status_code == 200, tokens.text
    token: str = tokens.json()["access_token"]
    return token
