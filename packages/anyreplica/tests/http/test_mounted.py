"""Tests of an app below a prefix: mounted in another app, behind a proxy, and with another path of the endpoint."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider, OAuthProxy, StaticTokenVerifier
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from anyreplica import App, Settings, create_app
from conftest import StartServer
from tests.auth.test_crossing import served
from tests.calls import BOTH, HEADERS, request

ISSUER = "https://issuer.example.com"
KEYS = {"auth_enabled": True, "auth_token": "let-me-in"}


def app_of(**values: Any) -> App:
    """Return the app of a replica with one tool."""
    mcp = FastMCP("server")

    @mcp.tool
    def ping() -> str:
        return "pong"

    return create_app(mcp, Settings(**{"mcp_components": (), **values}))


def mounted(app: App, prefix: str) -> Starlette:
    """Mount an app in Starlette below a prefix."""
    inner: ASGIApp = app
    for part in reversed(prefix.split("/")[1:]):
        inner = Starlette(routes=[Mount(f"/{part}", inner)])
    return Starlette(routes=[Mount("", inner)], lifespan=app.lifespan)


@pytest.mark.parametrize("prefix", ["/api", "/outer/api"])
@pytest.mark.parametrize("settings", [{}, {"stateless_http": False}, {"json_response": "false"}])
def test_a_mounted_app(prefix: str, settings: dict[str, Any]) -> None:
    """Below a prefix, the endpoint and the routes answer, and authentication guards the same paths."""
    with TestClient(mounted(app_of(**KEYS, **settings), prefix), base_url="http://localhost") as http:
        headers = {**HEADERS, "Accept": BOTH, "Authorization": "Bearer let-me-in"}
        opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        reply = http.post(f"{prefix}/mcp", json=request("initialize", opening), headers=headers)
        assert '"serverInfo"' in reply.text, reply.text
        assert http.post(f"{prefix}/mcp", json=request("tools/list"), headers=HEADERS).status_code == 401
        assert http.get(f"{prefix}/readyz").json() == {"status": "ready"}
        assert http.get(f"{prefix}/metrics").status_code == 401
        assert f"http://localhost{prefix}/mcp" in http.get(f"{prefix}/").text
        assert http.get(f"{prefix}/nowhere").status_code == 404
        assert http.get("/readyz").status_code == 404


def test_an_app_mounted_in_fastapi() -> None:
    """The routes of the FastAPI app answer beside the mounted app, which starts with it."""
    app = app_of(**KEYS)
    outer = FastAPI(lifespan=app.lifespan)
    outer.mount("/api", app)

    @outer.get("/items/{item}")
    def price(item: int) -> dict[str, int]:
        return {"price": item}

    with TestClient(outer, base_url="http://localhost") as http:
        call = request("tools/call", {"name": "ping"})
        headers = {**HEADERS, "Authorization": "Bearer let-me-in"}
        for endpoint in ("/api/mcp", "/api/mcp/"):
            assert http.post(endpoint, json=call, headers=headers).json()["result"]["content"][0]["text"] == "pong"
        assert http.post("/api/mcp", json=call, headers=HEADERS).status_code == 401
        assert http.get("/items/7").json() == {"price": 7}
        assert http.get("/items/tea").status_code == 422
        assert list(http.get("/openapi.json").json()["paths"]) == ["/items/{item}"]
        assert http.post("/mcp", json=call, headers=headers).status_code == 404


def test_an_app_that_has_not_started() -> None:
    """Without its lifespan, a mounted app serves custom routes, as FastMCP's app does, and says what `/mcp` needs."""
    mcp = FastMCP("server")

    @mcp.custom_route("/hook", methods=["GET"])
    async def hook(_: Request) -> Response:
        return PlainTextResponse("called")

    app = create_app(mcp, Settings(mcp_components=()))
    http = TestClient(Starlette(routes=[Mount("/api", app)]), base_url="http://localhost")
    assert http.get("/api/hook").text == "called"
    assert http.get("/api/readyz").status_code == 503
    with pytest.raises(RuntimeError, match=r"lifespan=app\.lifespan"):
        http.post("/api/mcp", json=request("ping"), headers=HEADERS)


def test_a_failed_start_ends_the_outer_app(capsys: pytest.CaptureFixture[str]) -> None:
    """If a mounted app cannot start, the outer app does not start. The reason is on stderr."""

    @asynccontextmanager
    async def failing(server: FastMCP) -> AsyncIterator[None]:
        if server.name == "server":
            raise ValueError("no database")
        yield

    app = create_app(FastMCP("server", lifespan=failing), Settings(mcp_components=()))
    with pytest.raises(RuntimeError, match="has not started"), TestClient(mounted(app, "/api")):
        pass
    assert "no database" in capsys.readouterr().err


@pytest.mark.anyio
async def test_a_host_without_state_in_its_lifespan() -> None:
    """A host that offers no state in the lifespan can serve the app."""

    app = app_of()
    sent = asyncio.Queue[Any]()
    received = asyncio.Queue[Any]()
    await received.put({"type": "lifespan.startup"})
    task = asyncio.ensure_future(app({"type": "lifespan"}, received.get, sent.put))
    assert await sent.get() == {"type": "lifespan.startup.complete"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert (await client.get("/readyz")).status_code == 200
    await received.put({"type": "lifespan.shutdown"})
    await task


@pytest.mark.parametrize("proxy", ["removes the prefix", "keeps the prefix"])
def test_a_proxy_with_a_prefix(start_server: StartServer, proxy: str) -> None:
    """Behind PUBLIC_URL with a path, a replica answers with and without the path."""
    server = start_server(PUBLIC_URL="https://example.com/team/a", MCP_PATH="/agents")
    prefix = "/team/a" if proxy == "keeps the prefix" else ""
    call = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
    assert '"hi"' in httpx.post(f"{server.url}{prefix}/agents", json=call, headers=HEADERS).text
    assert httpx.get(f"{server.url}{prefix}/readyz").status_code == 200
    assert "/team/a/agents" in httpx.get(f"{server.url}{prefix}/").text
    assert httpx.post(f"{server.url}{prefix}/mcp", json=request("tools/list"), headers=HEADERS).status_code == 404


@pytest.mark.parametrize("prefix", ["", "/api"])
@pytest.mark.parametrize("endpoint", ["/mcp", "/agents"])
def test_each_url_of_the_metadata_answers(prefix: str, endpoint: str) -> None:
    """The URL in the header of a 401 answers, and the issuer in its document has the spelling of the setting."""
    base = f"https://mcp.example.com{prefix}"
    tokens = {"auth_jwt_issuer": ISSUER, "auth_jwt_audience": ("a",), "auth_jwt_jwks": f"{ISSUER}/jwks"}
    with served(FastMCP("server"), auth_enabled=True, public_url=base, mcp_path=endpoint, **tokens) as client:
        refused = client.http.post(endpoint, json=request("tools/list"), headers=HEADERS)
        assert refused.status_code == 401
        url = refused.headers["www-authenticate"].partition('resource_metadata="')[2].partition('"')[0]
        assert url == f"https://mcp.example.com/.well-known/oauth-protected-resource{prefix}{endpoint}"
        document = client.http.get(url.removeprefix("https://mcp.example.com")).json()
        assert (document["resource"], document["authorization_servers"]) == (f"{base}{endpoint}", [ISSUER])


def in_memory(base: str) -> AuthProvider:
    """Return a login with all that its metadata can name. The page for readers is a custom route."""
    return InMemoryOAuthProvider(
        base_url=base,
        service_documentation_url=f"{base}/guide",
        client_registration_options=ClientRegistrationOptions(enabled=True),
        revocation_options=RevocationOptions(enabled=True),
    )


def proxy(base: str) -> AuthProvider:
    """Return a login through an identity provider, as LOGIN_PROVIDER makes it."""
    return OAuthProxy(
        upstream_authorization_endpoint=f"{ISSUER}/authorize",
        upstream_token_endpoint=f"{ISSUER}/token",
        upstream_revocation_endpoint=f"{ISSUER}/revoke",
        upstream_client_id="replicas",
        upstream_client_secret="a-secret-of-the-identity-provider",
        token_verifier=StaticTokenVerifier({}),
        base_url=base,
    )


ENDPOINTS = {"authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"}


@pytest.mark.parametrize("prefix", ["", "/api"])
@pytest.mark.parametrize(("login", "pages"), [(in_memory, {"service_documentation"}), (proxy, set())])
def test_each_url_of_a_login_answers(prefix: str, login: Callable[[str], AuthProvider], pages: set[str]) -> None:
    """The metadata of the issuer is where clients look for it (RFC 8414), also for an issuer with a path.

    Each URL that it names answers to the method of its clients.
    """
    base = f"https://mcp.example.com{prefix}"
    mcp = FastMCP("server", auth=login(base))

    @mcp.custom_route("/guide", methods=["GET"])
    async def guide(_: Request) -> Response:
        return PlainTextResponse("how to log in")

    with served(mcp, public_url=base) as client:
        resource = client.http.get(f"/.well-known/oauth-protected-resource{prefix}/mcp").json()
        document = client.http.get(f"/.well-known/oauth-authorization-server{prefix}").json()
        assert resource["authorization_servers"] == [document["issuer"]]
        named = {name: url for name, url in document.items() if name != "issuer" and str(url).startswith("http")}
        assert set(named) == ENDPOINTS | pages
        for name, url in named.items():
            method = "GET" if name in {"authorization_endpoint", *pages} else "POST"
            assert url.startswith(f"{base}/")
            reply = client.http.request(method, url.removeprefix(base))
            assert reply.status_code in ((200,) if name in pages else (400, 401)), (name, reply.text)
        assert client.http.post(resource["resource"].removeprefix(base), json=request("ping")).status_code == 401
