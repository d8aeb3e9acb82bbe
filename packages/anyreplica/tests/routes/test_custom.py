"""Tests of the routes that a server's author adds: where they may be, and who may use them."""

from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.contrib.component_manager import set_up_component_manager
from fastmcp.server.auth import StaticTokenVerifier
from fastmcp.server.auth.middleware import RequireAuthMiddleware
from fastmcp.tools import Tool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica import Settings, create_app
from anyreplica.settings.errors import StartupError
from anyreplica.testing import Client, replica
from tests.auth.test_crossing import login, served

EVERYWHERE = ["/", "/health", "/health/deep", "/ready", "/metrics", "/version", "/jobs", "/jobs/{id}", "/hook/{name}"]
SECRET = "a-secret-of-the-author"
KEY = "let-me-in"
KEYED: dict[str, Any] = {"auth_enabled": True, "auth_token": KEY}


def with_routes(*paths: str, methods: tuple[str, ...] = ("GET",)) -> FastMCP:
    """Return a server with a custom route at each path."""
    mcp = FastMCP("server")

    async def answer(request: Request) -> Response:
        return PlainTextResponse(f"the author's {request.url.path}")

    for path in paths:
        mcp.custom_route(path, methods=list(methods))(answer)

    @mcp.tool
    def ping() -> str:
        return "pong"

    return mcp


def asked(client: Client, path: str, token: str = "", method: str = "GET") -> tuple[int, str]:
    """Return status and text of a reply."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    reply = client.http.request(method, path, headers=headers)
    return reply.status_code, reply.text


@pytest.mark.parametrize("secured", [False, True])
def test_the_authors_route_wins_and_is_public(secured: bool) -> None:
    """The author's routes replace those of anyreplica and need no authentication, whatever token comes with them."""
    with served(with_routes(*EVERYWHERE), **(KEYED if secured else {})) as client:
        for path in (each.format(name="order", id="7") for each in EVERYWHERE):
            for token in ("", "a-token-of-another-service"):
                assert asked(client, path, token) == (200, f"the author's {path}")
        assert asked(client, "/readyz")[0] == 200
        assert asked(client, "/ready", method="POST")[0] == 405
        assert asked(client, "/nowhere")[0] == 404
        assert asked(client, "/mcp", method="POST")[0] == (401 if secured else 415)


def test_another_method_of_a_path_stays_guarded() -> None:
    """A custom route makes only its own methods public. Those of anyreplica at the same path still need a key."""
    with served(with_routes("/jobs"), **KEYED) as client:
        assert asked(client, "/jobs")[0] == 200
        assert asked(client, "/jobs", method="POST")[0] == 401
        assert asked(client, "/jobs/1")[0] == 401
        assert asked(client, "/metrics")[0] == 401


def test_a_setting_protects_custom_routes() -> None:
    """With PROTECT_CUSTOM_ROUTES, a custom route needs a key."""
    with served(with_routes("/hook", "/version"), **KEYED, protect_custom_routes=True) as client:
        for path in ("/hook", "/version"):
            assert asked(client, path)[0] == 401
            assert asked(client, path, KEY) == (200, f"the author's {path}")


@pytest.mark.parametrize(
    ("path", "setting"),
    [("/mcp", "mcp_path"), ("/mcp/", "mcp_path"), ("/healthz", "liveness_path"), ("/readyz", "readiness_path")],
)
def test_a_path_that_a_replica_needs_can_be_moved(path: str, setting: str) -> None:
    """A route at a path that a replica needs stops the start. The error names the setting that moves the path."""
    mcp = with_routes(path)
    with pytest.raises(StartupError, match=f"custom_route {path}: .* {setting.upper()}=/"), served(mcp):
        pass
    with served(mcp, **{setting: "/moved/here"}) as client:
        assert asked(client, path) == (200, f"the author's {path}")
        assert client.call("ping") == "pong"
        assert asked(client, "/moved/here")[0] == (405 if setting == "mcp_path" else 200)


def test_the_metrics_can_be_moved() -> None:
    """METRICS_PATH moves the page of the metrics, with its token."""
    with served(with_routes("/metrics"), metrics_path="/prometheus", metrics_token=SECRET) as client:
        assert asked(client, "/metrics") == (200, "the author's /metrics")
        assert asked(client, "/prometheus")[0] == 401
        assert "mcp_requests_in_flight" in asked(client, "/prometheus", SECRET)[1]


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("mcp_path", "mcp", "write it like /mcp"),
        ("liveness_path", "/a b", "write it like /mcp"),
        ("readiness_path", "/a/../b", "write it like /mcp"),
        ("metrics_path", "/" + "a" * 100, "write it like /mcp"),
        ("metrics_path", "/readyz", "READINESS_PATH has the same path"),
        ("liveness_path", "/mcp/", "MCP_PATH has the same path"),
    ],
)
def test_a_path_that_cannot_be(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str) -> None:
    """A path that no request can have, or that two routes would have, is refused."""
    monkeypatch.setenv(variable.upper(), value)
    with pytest.raises(StartupError, match=reason):
        Settings.load()


def test_require_auth_on_a_route_accepts_the_token_of_the_endpoint() -> None:
    """FastMCP's `RequireAuthMiddleware` on a custom route accepts what `/mcp` accepts, and checks the scopes."""
    mcp = login(FastMCP("server"))

    async def private(request: Request) -> Response:
        return PlainTextResponse(request.user.username)

    for scope in ("admin", "other"):
        guard = Middleware(RequireAuthMiddleware, required_scopes=[scope])
        mcp._additional_http_routes.append(Route(f"/{scope}", private, middleware=[guard]))
    with served(mcp) as client:
        assert asked(client, "/admin", "admin") == (200, "app")
        assert asked(client, "/other", "admin")[0] == 403
        assert asked(client, "/admin", "unknown")[0] == 401
        assert asked(client, "/admin")[0] == 401


@pytest.mark.parametrize("token", ["admin", KEY], ids=["login", "key"])
def test_the_component_manager_needs_the_token_of_the_endpoint(token: str) -> None:
    """The routes of FastMCP's component manager need a token if `/mcp` needs one, also with keys of the operator."""
    mcp = FastMCP("server")
    mcp.add_tool(Tool.from_function(lambda: 1, name="one"))
    set_up_component_manager(mcp)
    with served(login(mcp)) if token == "admin" else served(mcp, **KEYED) as client:
        for tried, status in (("", 401), ("unknown", 401), (token, 200)):
            assert asked(client, "/tools/one/disable", tried, "POST")[0] == status


def test_middleware_of_the_author_stays_guarded() -> None:
    """A path that only the author's own middleware answers still needs authentication."""

    class Answers:
        def __init__(self, app: ASGIApp) -> None:
            self.app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            answers = scope["type"] == "http"
            await (PlainTextResponse("from the middleware") if answers else self.app)(scope, receive, send)

    settings = Settings(mcp_components=(), **KEYED)
    with replica(lambda: create_app(FastMCP("server"), settings, middleware=[Middleware(Answers)])) as client:
        assert asked(client, "/anything")[0] == 401
        assert asked(client, "/anything", KEY) == (200, "from the middleware")


def test_a_login_guards_the_endpoint_alone() -> None:
    """With a login, too, custom routes are public and `/mcp` is not."""
    mcp = with_routes("/webhook/{name}")
    mcp.auth = StaticTokenVerifier(tokens={"valid": {"client_id": "app", "scopes": []}})
    with served(mcp) as client:
        assert asked(client, "/webhook/stripe", "whsec") == (200, "the author's /webhook/stripe")
        assert asked(client, "/mcp", "whsec", "POST")[0] == 401
        assert client.with_token("valid").call("ping") == "pong"
