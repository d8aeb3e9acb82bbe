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
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

from anyreplica import App, Settings, StartupError, create_app
from anyreplica.testing import replica
from conftest import free_port
from tests.calls import BOTH, request
from tests.replicas import KEYS
from tests.starts import start

URL = "https://mcp.example.com"
SEVERAL = {"MCP_REPLICAS": "3", "REQUEST_STATE_KEYS": KEYS}
NEEDS_REDIS = (
    "REDIS_URL: required by the login (OAuthProxy) with 3 replicas, because replicas share clients, codes and tokens "
    "in Redis; set it\n"
)
NEEDS_KEYS = (
    "REQUEST_STATE_KEYS: required by the login (OAuthProxy) with REDIS_URL, because Redis stores logins in encrypted "
    "form; set it (openssl rand -hex 32 makes a key)\n"
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
    """Several replicas need Redis if their provider issues tokens, and refuse one that stores all in its memory."""
    replicas = {} if "--replicas" in arguments else SEVERAL
    assert serve(tmp_path, kind, *arguments, **settings, **replicas) == (3, said)


@pytest.mark.parametrize(("kind", "replicas"), [("remote", SEVERAL), ("verifier", SEVERAL), ("proxy", {})])
def test_some_logins_need_no_redis(tmp_path: Path, kind: str, replicas: dict[str, str]) -> None:
    """A provider that only verifies tokens has no state. A single replica uses FastMCP's own storage."""
    assert serve(tmp_path, kind, "check", FASTMCP_HOME=str(tmp_path), **replicas) == (0, "")


def test_redis_needs_keys(tmp_path: Path) -> None:
    """Redis stores logins in encrypted form only."""
    assert serve(tmp_path, "proxy", "check", REDIS_URL="redis://127.0.0.1:1") == (3, NEEDS_KEYS)


def verifier(**tokens: dict[str, Any]) -> StaticTokenVerifier:
    """Return a verifier of fixed tokens."""
    return StaticTokenVerifier(tokens={token: {"client_id": "a-client", **said} for token, said in tokens.items()})


def made(auth: AuthProvider, **values: Any) -> App:
    """Return the app of a server that has one tool."""
    mcp = FastMCP("login", auth=auth)
    mcp.tool(lambda: "hello", name="greet")
    mcp.tool(lambda: str(sdk_access_token()), name="token")
    return create_app(mcp, Settings(auto_discover=False, **values))


JWT = {"auth_jwt_issuer": URL, "auth_jwt_audience": URL, "auth_jwt_jwks": URL, "public_url": URL}
SIGNING = {"signing": "require", "api_keys_file": Path("keys")}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (JWT, r"^AUTH_JWT_ISSUER: the server has a login already"),
        (SIGNING, r"^SIGNING=require: nobody could log in"),
    ],
)
def test_settings_that_do_not_fit_a_login_are_refused(values: dict[str, Any], said: str) -> None:
    """Beside a login, no other issuer may publish metadata, and no signature may be required to log in."""
    with pytest.raises(StartupError, match=said):
        made(verifier(), auth_enabled=True, **values)


async def stamped(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """Add a header to each reply."""
    reply = await call_next(request)
    reply.headers["x-stamp"] = "seen"
    return reply


class WithMiddleware(StaticTokenVerifier):
    """A provider that adds a middleware."""

    def get_middleware(self) -> list[Middleware]:
        """Return FastMCP's middleware and one more."""
        return [*super().get_middleware(), Middleware(BaseHTTPMiddleware, stamped)]


class WithBackend(StaticTokenVerifier):
    """A provider that replaces FastMCP's authentication."""

    def get_middleware(self) -> list[Middleware]:
        """Return a middleware with another backend."""
        return [Middleware(AuthenticationMiddleware, backend=AuthenticationBackend())]


def test_added_middleware_runs() -> None:
    """The middleware that a provider adds sees each request, also a refused one."""
    provider = WithMiddleware(tokens={"a-token": {"client_id": "a-client"}})
    with replica(lambda: made(provider)) as client:
        assert client.with_token("a-token").call("greet") == "hello"
        assert client.http.post("/mcp", json={}).headers["x-stamp"] == "seen"


def test_the_sdks_function_returns_the_token() -> None:
    """A tool may also use the SDK's `get_access_token`."""
    with replica(lambda: made(verifier(mine={}))) as client:
        asked, headers = request("tools/call", {"name": "token"}), {"Authorization": "Bearer mine", "Accept": BOTH}
        reply = client.http.post("/mcp", json=asked, headers=headers)
        assert (reply.status_code, "client_id='a-client'" in reply.text) == (200, True)


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
        body = refused.json()
        assert body["jsonrpc"] == "2.0"
        assert body["error"]["message"] == "The token does not have all required scopes: mcp."
        assert body["error"]["data"] == {"error": "insufficient_scope"}
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
