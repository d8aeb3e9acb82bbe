"""Which headers of a request reach tools and other servers: never the credentials of a caller."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client as FastMCPClient
from fastmcp import FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.dependencies import get_http_headers, get_http_request
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica import Feature, Parts, Replica, Settings, StartupError, create_app
from anyreplica.features.keys.tokens import Tokens
from anyreplica.settings.rate import NO_RATE
from anyreplica.testing import Client, replica
from tests.calls import HEADERS, request
from tests.mcp.upstream import serving

KEY = "a-key-with-more-than-32-characters-for-a-caller"
SECRETS = {
    "Authorization": f"Bearer {KEY}",
    "X-Api-Key": "secret-of-the-caller",
    "Cookie": "session=secret-of-the-caller",
    "Proxy-Authorization": "Basic secret-of-the-caller",
}
FORGED = {
    "X-Remote-User": "admin",
    "X-Forwarded-For": "10.0.0.1",
    "X-Forwarded-User": "admin",
    "X-HTTP-Method-Override": "DELETE",
    "X-Tenant": "acme",
}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ALLOWED = {"traceparent": TRACE, "accept-language": "de"}
SENT = {**SECRETS, **FORGED, **ALLOWED}
OFF: dict[str, Any] = {"auth_enabled": False, "auth_token": None}
HOP = {"host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length"}
"""Headers that each HTTP client writes itself."""


def ours(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers that neither an HTTP client nor the protocol has written."""
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lower.items() if name not in HOP and not name.startswith("mcp-")}


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """The URL of another MCP server, see `serving`."""
    with serving() as url:
        yield url


def settings(**values: Any) -> Settings:
    """Return the settings of a replica whose callers need a key."""
    given: dict[str, Any] = {"mcp_components": (), "auth_enabled": True, "auth_token": KEY}
    return Settings(**given | values)


def headers_at(client: Client, tool: str, **arguments: Any) -> dict[str, str]:
    """Call a tool with all headers, and return those that it reports."""
    client.http.headers.update(SENT)
    result = client.with_token(KEY).call(tool, **arguments)
    assert isinstance(result, dict)
    return ours(result)


def proxied(url: str, form: str) -> FastMCP:
    """Return a server with a proxy of another server."""
    if form == "url":
        return create_proxy(url, name="front")
    if form == "client.json":
        return create_proxy({"mcpServers": {"up": {"url": url}}}, name="front")
    front = FastMCP("front")
    if form == "mounted":
        front.mount(create_proxy(url))
    else:

        @front.tool
        async def seen() -> dict[str, str]:
            async with FastMCPClient(url) as client:
                return dict((await client.call_tool("seen")).data)

    return front


@pytest.mark.parametrize("form", ["url", "client.json", "mounted", "a client in a tool"])
def test_a_proxied_server_gets_no_credentials(upstream: str, form: str) -> None:
    """Every form of proxy passes on only trace context and language. FastMCP's own client passes on nothing."""
    passed_on = {} if form == "a client in a tool" else ALLOWED
    with replica(lambda: create_app(proxied(upstream, form), settings())) as client:
        assert headers_at(client, "seen") == passed_on


@pytest.mark.parametrize("form", ["url", "client.json", "mounted"])
@pytest.mark.parametrize("kind", ["resource", "template", "prompt"])
def test_proxied_resources_and_prompts_get_no_credentials(upstream: str, form: str, kind: str) -> None:
    """A server gets the credentials of a caller with no request: not to read a resource, nor for a prompt."""
    with replica(lambda: create_app(proxied(upstream, form), settings())) as client:
        client.http.headers.update(SENT)
        one = client.with_token(KEY)
        if kind == "prompt":
            text = one.prompt("seen_prompt")
        else:
            text = one.read("seen://headers" if kind == "resource" else "seen://headers/one")
        seen = json.loads(text)
    assert seen.pop("name", "one") == "one"
    assert ours(seen) == ALLOWED


def test_the_operator_names_more_headers(upstream: str) -> None:
    """`FORWARD_HEADERS` adds names, in any case of letters."""
    with replica(lambda: create_app(proxied(upstream, "url"), settings(forward_headers=("X-TENANT",)))) as client:
        assert headers_at(client, "seen") == {**ALLOWED, "x-tenant": "acme"}


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "Signature", "signature-input", "Cookie"])
def test_credentials_cannot_be_named(upstream: str, name: str) -> None:
    """If callers must authenticate, `FORWARD_HEADERS` with a header of credentials stops the start."""
    with pytest.raises(StartupError, match=rf"^FORWARD_HEADERS={name.lower()}: .*DOWNSTREAM_TOKENS_FILE .*CallerAuth"):
        create_app(proxied(upstream, "url"), settings(forward_headers=(name,)))


class OwnGuard:
    """ASGI middleware, which may authenticate callers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class OwnAuth(FastMCP):
    """A server that adds the middleware in its `http_app`."""

    def http_app(self, *args: Any, **kwargs: Any) -> Any:
        app = super().http_app(*args, **kwargs)
        app.add_middleware(OwnGuard)
        return app


class OwnTokens(Feature):
    """A feature that knows the callers of tokens."""

    def attach(self, replica: Replica) -> Parts:  # noqa: ARG002
        return Parts(tokens=[Tokens("https://a.example.com", ["a"], "https://a.example.com/jwks", ["ES256"], NO_RATE)])


def test_credentials_cannot_be_named_with_an_authentication_of_the_author() -> None:
    """Middleware that may authenticate callers, and a feature that does, stop the start, too."""
    named = settings(**OFF, forward_headers=("authorization",))
    text = r"^FORWARD_HEADERS=authorization: .*\(middleware OwnGuard may authenticate callers\)"
    with pytest.raises(StartupError, match=text):
        create_app(OwnAuth("front"), named)
    with pytest.raises(StartupError, match=text):
        create_app(FastMCP("front"), named, middleware=[Middleware(OwnGuard)])
    with (
        pytest.raises(StartupError, match=r"^FORWARD_HEADERS=authorization: "),
        replica(lambda: create_app(FastMCP("front"), named, features=[OwnTokens])),
    ):
        pass
    cors = Middleware(CORSMiddleware, allow_origins=["*"])
    create_app(FastMCP("front"), named, middleware=[cors])
    create_app(OwnAuth("front"), settings(**OFF, forward_headers=("x-tenant",)))


@pytest.mark.slow
def test_a_proxy_without_authentication_passes_on_nothing_either(upstream: str) -> None:
    """Without authentication, the headers of an anonymous caller stay here, unless the operator names them."""
    with replica(lambda: create_app(proxied(upstream, "url"), settings(**OFF))) as client:
        assert headers_at(client, "seen") == ALLOWED
    named = settings(**OFF, forward_headers=("authorization",))
    with replica(lambda: create_app(proxied(upstream, "url"), named)) as client:
        assert headers_at(client, "seen") == {**ALLOWED, "authorization": f"Bearer {KEY}"}


_SEEN = {"operationId": "seen", "responses": {"200": {"description": "the headers of the request"}}}
SPEC = {"openapi": "3.1.0", "info": {"title": "API", "version": "1"}, "paths": {"/seen": {"get": _SEEN}}}


@pytest.mark.parametrize("auth", [True, False])
def test_an_api_behind_openapi_gets_no_headers_of_callers(auth: bool) -> None:
    """An API does not see the headers with which a caller could pretend to be a trusted proxy."""
    seen = httpx2.MockTransport(lambda request: httpx2.Response(200, json=dict(request.headers)))
    api = httpx2.AsyncClient(transport=seen, base_url="http://api.example.com", headers={"X-Of-The-Server": "1"})
    mcp = FastMCP.from_openapi(SPEC, api, name="front")
    with replica(lambda: create_app(mcp, settings(**({} if auth else OFF)))) as client:
        assert headers_at(client, "seen") == {**ALLOWED, "x-of-the-server": "1"}


def tools() -> FastMCP:
    """Return a server whose tools return the headers of their request in each way that FastMCP offers."""
    mcp = FastMCP("front")

    @mcp.tool
    def of_the_request() -> dict[str, str]:
        return dict(get_http_request().headers)

    @mcp.tool
    def of_the_scope() -> dict[str, str]:
        request = get_http_request()
        texts = [f"{key}: {value}" for key, value in request.scope.items() if key not in ("user", "headers")]
        return {**{name.decode(): value.decode() for name, value in request.scope["headers"]}, "x-scope": str(texts)}

    @mcp.tool
    def of_fastmcp() -> dict[str, str]:
        return get_http_headers(include_all=True)

    return mcp


@pytest.mark.parametrize("tool", ["of_the_request", "of_the_scope", "of_fastmcp"])
def test_a_tool_sees_no_credentials_of_its_caller(tool: str) -> None:
    """A tool sees the other headers of a request, but not those with which its caller has authenticated."""
    with replica(lambda: create_app(tools(), settings())) as client:
        call = request("tools/call", {"name": tool, "arguments": {}})
        seen = client.http.post("/mcp", json=call, headers={**SENT, **HEADERS}).text
    assert '"isError":false' in seen
    assert KEY not in seen
    assert "secret-of-the-caller" not in seen
    for name, value in FORGED.items():
        assert f'"{name.lower()}":"{value}"' in seen


def test_a_tool_without_authentication_sees_all_headers() -> None:
    """A server that authenticates nobody changes nothing in the headers, as `fastmcp run` does."""
    with replica(lambda: create_app(tools(), settings(**OFF))) as client:
        assert headers_at(client, "of_the_request") == {name.lower(): value for name, value in SENT.items()}


def test_names_of_headers_are_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A text that is not the name of a header stops the start."""
    monkeypatch.setenv("SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("FORWARD_HEADERS", "X-Tenant, X Tenant")
    with pytest.raises(StartupError, match=r"^FORWARD_HEADERS=.*'X Tenant' is not the name of a header"):
        Settings.load()
