"""A login that replicas cannot share stops the start. `check` finds the same error, and the error is one line."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import fastmcp
import pytest
from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken, AuthProvider, MultiAuth, StaticTokenVerifier, cimd
from mcp.server.auth.middleware.auth_context import get_access_token as sdk_access_token
from starlette.authentication import AuthenticationBackend
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica import App, Settings, StartupError, create_app
from anyreplica.testing import replica
from conftest import free_port
from tests.replicas import KEYS
from tests.starts import start

URL = "https://mcp.example.com"
SEVERAL = {"MCP_REPLICAS": "3", "REQUEST_STATE_KEYS": KEYS}
NEEDS_REDIS = (
    "REDIS_URL: required by the login (OAuthProxy) with 3 replicas, because replicas share clients, codes and tokens "
    "in Redis; set it\n"
)
IN_MEMORY = (
    "FastMCP(auth=InMemoryOAuthProvider): not possible with 3 replicas, because this provider stores clients and "
    "tokens in the memory of one replica; use another provider\n"
)


def serve(folder: Path, kind: str, *arguments: str, **settings: str) -> tuple[int, str]:
    """Start the server with a provider. Return the exit code and stderr."""
    settings |= {"AUTH": kind, "PUBLIC_URL": URL, "JWKS": "https://login.example.com/keys", "HOME": str(folder)}
    settings |= {"MCP_PORT": str(free_port()), "MCP_COMPONENTS": "server", "LOG_LEVEL": "ERROR"}
    # The server replaces the function of `cimd`, and FastMCP has read its home before the test.
    with patch.object(cimd, "ssrf_safe_fetch_response"), patch.object(fastmcp.settings, "home", folder):
        done = start(*arguments, app="tests.auth.login.server:create_app", **settings)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [["check"], [], ["--replicas", "3", "--no-redis"]])
@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [("proxy", {}, NEEDS_REDIS), ("memory", {"REDIS_URL": "redis://127.0.0.1:1"}, IN_MEMORY)],
)
def test_several_replicas_share_logins(
    tmp_path: Path, kind: str, settings: dict[str, str], said: str, arguments: list[str]
) -> None:
    """Several replicas with a provider that issues tokens need Redis.

    A provider that stores everything in memory is refused, with Redis, too.
    """
    replicas = {} if "--replicas" in arguments else SEVERAL
    assert serve(tmp_path, kind, *arguments, **settings, **replicas) == (3, said)


@pytest.mark.parametrize(("kind", "replicas"), [("remote", SEVERAL), ("verifier", SEVERAL), ("proxy", {})])
def test_some_logins_need_no_redis(tmp_path: Path, kind: str, replicas: dict[str, str]) -> None:
    """A provider that only verifies tokens has no state. A single replica uses FastMCP's own storage."""
    assert serve(tmp_path, kind, "check", FASTMCP_HOME=str(tmp_path), **replicas) == (0, "")


def test_redis_needs_keys(tmp_path: Path) -> None:
    """Redis stores logins in encrypted form only."""
    code, error = serve(tmp_path, "proxy", "check", REDIS_URL="redis://127.0.0.1:1")
    assert code == 3
    assert error == (
        "REQUEST_STATE_KEYS: required by the login (OAuthProxy) with REDIS_URL, because Redis stores logins in "
        "encrypted form; set it (openssl rand -hex 32 makes a key)\n"
    )


def settings(**values: Any) -> Settings:
    """Return settings of a replica that serves no components."""
    return Settings(auto_discover=False, **values)


def verifier(**tokens: dict[str, Any]) -> StaticTokenVerifier:
    """Return a verifier of fixed tokens."""
    return StaticTokenVerifier(tokens={token: {"client_id": "a-client", **said} for token, said in tokens.items()})


def made(auth: AuthProvider, **values: Any) -> App:
    """Return the app of a server that has one tool."""
    mcp = FastMCP("login", auth=auth)
    mcp.tool(lambda: "hello", name="greet")
    mcp.tool(lambda: str(sdk_access_token()), name="token")
    return create_app(mcp, settings(**values))


def test_two_issuers_of_tokens_are_refused() -> None:
    """AUTH_JWT_ISSUER and a login would both publish metadata."""
    said = {"auth_jwt_issuer": URL, "auth_jwt_audience": URL, "auth_jwt_jwks": URL, "public_url": URL}
    with pytest.raises(StartupError, match=r"^AUTH_JWT_ISSUER: the server has a login already"):
        made(verifier(), auth_enabled=True, **said)


def test_required_signatures_are_refused(tmp_path: Path) -> None:
    """Nobody could log in if each caller had to sign."""
    with pytest.raises(StartupError, match=r"^SIGNING=require: nobody could log in"):
        made(verifier(), auth_enabled=True, signing="require", api_keys_file=tmp_path / "keys")


class Stamped:
    """A middleware that adds a header to each reply."""

    def __init__(self, app: ASGIApp, stamp: str) -> None:
        self.app = app
        self.stamp = stamp.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the header."""

        async def stamped(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-stamp", self.stamp)]
            await send(message)

        await self.app(scope, receive, stamped)


class WithMiddleware(StaticTokenVerifier):
    """A provider that adds a middleware."""

    def get_middleware(self) -> list[Middleware]:
        """Return FastMCP's middleware and one more."""
        return [*super().get_middleware(), Middleware(Stamped, "seen")]


class Backend(AuthenticationBackend):
    """A backend that accepts nobody."""


class WithBackend(StaticTokenVerifier):
    """A provider that replaces FastMCP's authentication."""

    def get_middleware(self) -> list[Middleware]:
        """Return a middleware with another backend."""
        return [Middleware(AuthenticationMiddleware, backend=Backend())]


def test_added_middleware_runs() -> None:
    """The middleware that a provider adds sees each request, also a refused one."""
    provider = WithMiddleware(tokens={"a-token": {"client_id": "a-client"}})
    with replica(lambda: made(provider)) as client:
        assert client.with_token("a-token").call("greet") == "hello"
        assert client.http.post("/mcp", json={}).headers["x-stamp"] == "seen"


def test_the_sdks_function_returns_the_token() -> None:
    """A tool may also use the SDK's `get_access_token`."""
    with replica(lambda: made(verifier(mine={}))) as client:
        reply = client.http.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "token", "arguments": {}}},
            headers={"Authorization": "Bearer mine", "Accept": "application/json, text/event-stream"},
        )
        assert reply.status_code == 200
        assert "client_id='a-client'" in reply.text


def test_another_authentication_backend_is_refused() -> None:
    """This package replaces FastMCP's authentication middleware, so it would not use another backend."""
    with pytest.raises(StartupError, match="implement verify_token instead"):
        made(WithBackend(tokens={}))


def test_a_token_without_a_required_scope_gets_403() -> None:
    """The challenge of a token without a scope that the server requires names the scope."""
    tokens = verifier(weak={"scopes": ["read"]}, strong={"scopes": ["read", "mcp"]})
    provider = MultiAuth(verifiers={"tokens": tokens}, required_scopes=["mcp"])
    with replica(lambda: made(provider)) as client:
        refused = client.http.post("/mcp", json={}, headers={"Authorization": "Bearer weak"})
        assert refused.status_code == 403
        challenge = 'Bearer error="insufficient_scope", error_description="Required scope: mcp", scope="mcp"'
        assert refused.headers["www-authenticate"].startswith(challenge)
        assert client.with_token("strong").call("greet") == "hello"


def test_the_metadata_is_named_only_if_it_is_served() -> None:
    """A verifier without metadata gives no URL that does not exist."""
    with replica(lambda: made(verifier())) as client:
        refused = client.http.post("/mcp", json={})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="template-mcp"')


@pytest.mark.parametrize("said", [None, AccessToken(token="x", client_id="c", scopes=[], expires_at=1)])
def test_an_expired_token_is_refused(said: AccessToken | None) -> None:
    """A token that the provider does not know, or that has expired, gets HTTP 401."""

    class Known(StaticTokenVerifier):
        async def verify_token(self, token: str) -> AccessToken | None:  # noqa: ARG002
            return said

    with replica(lambda: made(Known(tokens={}))) as client:
        assert client.http.post("/mcp", json={}, headers={"Authorization": "Bearer x"}).status_code == 401
