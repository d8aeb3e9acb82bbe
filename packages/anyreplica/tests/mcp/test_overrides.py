"""Servers of a subclass of FastMCP: what the class overrides has its effect, or the start names the method."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest.mock import Mock

import pytest
from fastmcp import FastMCP
from fastmcp.server.auth import StaticTokenVerifier
from fastmcp.tools import Tool, ToolResult
from mcp_types import CallToolRequestParams, CallToolResult, TextContent
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica import Settings, StartupError, create_app
from anyreplica.testing import Client, replica

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}


@contextmanager
def served(mcp: FastMCP) -> Iterator[Client]:
    """Run a replica of a server with the tool `echo` in this process."""
    mcp.tool(lambda text: text, name="echo")
    with replica(lambda: create_app(mcp, Settings(mcp_components=()))) as client:
        yield client


class Guard:
    """ASGI middleware that lets only callers with a password pass."""

    def __init__(self, app: ASGIApp, password: str) -> None:
        self.app = app
        self.password = password

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and Request(scope).headers.get("x-password") != self.password:
            await JSONResponse({"error": "who are you?"}, 401)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def changing(name: str, change: Callable[[Any], Any]) -> type[FastMCP]:
    """Return a class whose `http_app` returns what a function makes of FastMCP's app."""

    def http_app(self: FastMCP, *args: Any, **kwargs: Any) -> Any:
        return change(FastMCP.http_app(self, *args, **kwargs))

    return type(name, (FastMCP,), {"http_app": http_app})


def adds_middleware(app: Any) -> Any:
    """Add a middleware that authenticates the callers."""
    app.add_middleware(Guard, password="open")
    return app


class PassesMiddleware(FastMCP):
    """A server that passes its middleware to FastMCP. Its method takes fewer arguments than FastMCP's."""

    def http_app(self, path: str | None = None, middleware: list[Middleware] | None = None) -> Any:  # type: ignore[override]
        guard = Middleware(Guard, password="open")
        return super().http_app(path=path, middleware=[guard, *(middleware or [])])


@pytest.mark.parametrize("kind", [changing("AddsMiddleware", adds_middleware), PassesMiddleware])
@pytest.mark.parametrize("body", [CALL, LIST])
def test_the_middleware_of_http_app_guards_the_server(kind: type[FastMCP], body: dict[str, Any]) -> None:
    """A stranger gets the same 401 as under `fastmcp run`, and a caller with the password is served."""
    with served(kind("server")) as client:
        stranger = client.http.post("/mcp", json=body, headers=HEADERS)
        assert (stranger.status_code, stranger.json()) == (401, {"error": "who are you?"})
        known = client.http.post("/mcp", json=body, headers={**HEADERS, "X-Password": "open"})
        assert known.status_code == 200
        assert "echo" in known.text or "hello" in known.text


def test_a_login_that_http_app_chooses() -> None:
    """An auth provider that `http_app` sets is the login of the server."""

    class ChoosesLogin(FastMCP):
        def http_app(self, *args: Any, **kwargs: Any) -> Any:
            self.auth = StaticTokenVerifier(tokens={"known": {"client_id": "app", "sub": "ada"}})
            return super().http_app(*args, **kwargs)

    with served(ChoosesLogin("server")) as client:
        assert client.http.post("/mcp", json=LIST, headers=HEADERS).status_code == 401
        assert client.with_token("known").call("echo", text="hello") == "hello"


def test_the_routes_of_http_app_are_served() -> None:
    """A route that `http_app` adds is served beside `/mcp`."""

    def adds_route(app: Any) -> Any:
        app.router.routes.append(Route("/hello", lambda _: PlainTextResponse("hello")))
        return app

    with served(changing("AddsRoute", adds_route)("server")) as client:
        assert client.http.get("/hello").text == "hello"
        assert client.call("echo", text="hello") == "hello"


def replaces_route(app: Any) -> Any:
    """Put a guard around the route of the endpoint only."""
    for route in app.routes:
        if getattr(route, "path", "") == "/mcp":
            route.app = Guard(route.app, "open")
    return app


def handles_errors(app: Any) -> Any:
    """Add an exception handler."""
    app.add_exception_handler(404, lambda *_: PlainTextResponse("nothing here", 404))
    return app


def replaces_lifespan(app: Any) -> Any:
    """Replace FastMCP's lifespan."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield

    app.router.lifespan_context = lifespan
    return app


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda app: Guard(app, "open"), "it returns Guard instead of FastMCP's app"),
        (lambda app: Starlette(routes=[Mount("/", app)], lifespan=app.lifespan), "it replaces the route /mcp"),
        (replaces_route, "it replaces the route /mcp"),
        (handles_errors, "it adds exception handlers"),
        (replaces_lifespan, "it replaces the lifespan"),
        (Mock(side_effect=RuntimeError("no license")), "RuntimeError: no license"),
    ],
)
def test_what_cannot_be_served_stops_the_start(change: Callable[[Any], Any], what: str) -> None:
    """The text is one line, and it names the method and what would be lost."""
    with pytest.raises(StartupError) as refused:
        create_app(changing("Changing", change)("server"), Settings(mcp_components=()))
    text = str(refused.value)
    assert text.startswith(f"Changing.http_app: {what}")
    assert "\n" not in text


@pytest.mark.parametrize("method", ["run_async", "run_http_async"])
def test_a_way_to_serve_of_its_own_stops_the_start(method: str) -> None:
    """`fastmcp run` calls these methods. This package does not, so it says so."""
    kind = type("OwnServer", (FastMCP,), {method: lambda _: None})
    with pytest.raises(StartupError, match=rf"^OwnServer\.{method}: anyreplica never calls this method"):
        create_app(kind("server"), Settings(mcp_components=()))


class Shouting(FastMCP):
    """Changes the results of all calls."""

    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        await super().call_tool(*args, **kwargs)
        return ToolResult(content="HELLO")


class Renaming(FastMCP):
    """Finds a tool under each name."""

    async def get_tool(self, name: str, version: Any = None) -> Tool | None:
        return await super().get_tool("echo" if name == "anything" else name, version)


class Adding(FastMCP):
    """Lists one more tool."""

    async def list_tools(self, *, run_middleware: bool = True) -> Any:
        return [*await super().list_tools(run_middleware=run_middleware), Tool.from_function(lambda: 1, name="more")]


def test_overridden_methods() -> None:
    """Calls, tools and lists are those of a server's own methods, also of a mounted one, and `/version` says so."""
    with served(Shouting("server")) as client:
        assert client.call("echo", text="hello") == "HELLO"
        assert client.http.get("/version").json()["paths"] == {"echo": "fastmcp: Shouting overrides call_tool"}
    with served(Renaming("server")) as client:
        assert client.call("anything", text="hello") == "hello"
    with served(Adding("server")) as client:
        assert client.tools() == ["echo", "more"]
    kid, front = Shouting("kid"), FastMCP("front")
    kid.tool(lambda text: text, name="say")
    front.mount(kid, namespace="kid")
    with served(front) as client:
        assert client.call("kid_say", text="hello") == "HELLO"
        assert client.call("echo", text="hello") == "hello"


def replaces_the_method(mcp: FastMCP) -> None:
    """Replace `call_tool` on the object."""
    plain = mcp.call_tool

    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        await plain(*args, **kwargs)
        return ToolResult(content="HELLO")

    mcp.call_tool = call_tool  # type: ignore[method-assign]


def replaces_the_handler(mcp: FastMCP) -> None:
    """Replace the handler of the SDK beneath FastMCP."""

    async def handle(ctx: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="HELLO")])

    mcp._mcp_server.add_request_handler("tools/call", CallToolRequestParams, handle)


@pytest.mark.parametrize("replace", [replaces_the_method, replaces_the_handler])
def test_what_the_author_has_replaced_on_the_object(replace: Callable[[FastMCP], None]) -> None:
    """A method or a handler that is replaced on the object has its effect, as a method of its class has."""
    mcp = FastMCP("server")
    replace(mcp)
    with served(mcp) as client:
        assert client.call("echo", text="hello") == "HELLO"


class Harmless(FastMCP):
    """Overrides only what is called outside of requests."""

    def tool(self, *args: Any, **kwargs: Any) -> Any:
        return super().tool(*args, **kwargs)

    def run(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    def extra(self) -> int:
        """A method that FastMCP does not have."""
        return 1


@pytest.mark.parametrize("kind", [FastMCP, Harmless])
def test_other_servers_keep_the_fast_path(kind: type[FastMCP]) -> None:
    """A class that changes nothing in requests does not lose the fast path."""
    with served(kind("server")) as client:
        assert client.http.get("/version").json()["paths"] == {"echo": "fast"}
