"""Servers of a subclass of FastMCP: what the class overrides has its effect, or the start names the method."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial, wraps
from typing import Any
from unittest.mock import Mock

import fastmcp
import pytest
from fastmcp import FastMCP
from fastmcp.server.auth import RemoteAuthProvider, StaticTokenVerifier
from fastmcp.tools import Tool, ToolResult
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from mcp_types import CallToolRequestParams, CallToolResult, TextContent
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica import Settings, StartupError, create_app
from anyreplica.testing import Client, replica

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}


@contextmanager
def served(mcp: FastMCP, **values: Any) -> Iterator[Client]:
    """Run a replica of a server with the tool `echo` in this process."""
    mcp.tool(lambda text: text, name="echo")
    with replica(lambda: create_app(mcp, Settings(mcp_components=(), **values))) as client:
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


def replaces_build(app: Any) -> Any:
    """Put a guard around what FastMCP's app builds."""
    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: Guard(build(), "open")
    return app


def wraps_router(app: Any) -> Any:
    """Put a guard around the routes."""
    app.router.middleware_stack = Guard(app.router.middleware_stack, "open")
    return app


def wraps_stack(app: Any) -> Any:
    """Build the stack of middleware early, and put a guard around it."""
    app.middleware_stack = Guard(app.build_middleware_stack(), "open")
    return app


def changes_class(app: Any) -> Any:
    """Let a guard answer instead of the class of FastMCP's app."""
    kind = type(app)

    async def call(self: Any, scope: Scope, receive: Receive, send: Send) -> None:
        await Guard(partial(kind.__call__, self), "open")(scope, receive, send)

    app.__class__ = type("Guarded", (kind,), {"__call__": call})
    return app


def replaces_default(app: Any) -> Any:
    """Replace what answers at unknown paths."""
    app.router.default = PlainTextResponse("nothing here", 404)
    return app


def shadows_endpoint(app: Any) -> Any:
    """Put an app before all routes."""
    app.router.routes.insert(0, Mount("/", Guard(PlainTextResponse("hello"), "open")))
    return app


def wraps_lifespan(app: Any) -> Any:
    """Wrap FastMCP's lifespan under its own name."""
    plain = app.router.lifespan_context

    @wraps(plain)
    @asynccontextmanager
    async def lifespan(own: Any) -> AsyncIterator[None]:
        async with plain(own):
            yield

    app.router.lifespan_context = lifespan
    return app


def shows_errors(app: Any) -> Any:
    """Send tracebacks to clients."""
    app.debug = True
    return app


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (replaces_build, "it replaces build_middleware_stack of the app"),
        (wraps_router, "it replaces middleware_stack of the router"),
        (wraps_stack, "it replaces middleware_stack of the app"),
        (changes_class, "it uses a Guarded with its own __call__"),
        (replaces_default, "it replaces default of the router"),
        (shadows_endpoint, "it replaces the route /mcp"),
        (wraps_lifespan, "it replaces the lifespan"),
        (shows_errors, "it replaces debug of the app"),
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


def refused(mcp: FastMCP) -> str:
    """Return the text with which a server is refused at its start."""
    with pytest.raises(StartupError) as error:
        create_app(mcp, Settings(mcp_components=()))
    return str(error.value)


def with_login(kind: type[FastMCP]) -> FastMCP:
    """Return a server that asks its callers for a token and publishes its metadata."""
    verifier = StaticTokenVerifier(tokens={"known": {"client_id": "app", "sub": "ada"}})
    return kind("server", auth=RemoteAuthProvider(verifier, [AnyHttpUrl("https://a.test")], "https://b.test"))


def changes_backend(app: Any) -> Any:
    """Change the arguments of FastMCP's middleware for logins."""
    login = next(each for each in app.user_middleware if each.cls is AuthenticationMiddleware)
    login.kwargs = {"backend": BearerAuthBackend(StaticTokenVerifier(tokens={}))}
    return app


def removes_backend(app: Any) -> Any:
    """Remove FastMCP's middleware for logins."""
    app.user_middleware = [each for each in app.user_middleware if each.cls is not AuthenticationMiddleware]
    return app


def wraps_metadata(app: Any) -> Any:
    """Put a guard around a route of the login."""
    app.routes[0].app = Guard(app.routes[0].app, "open")
    return app


def shadows_metadata(app: Any) -> Any:
    """Put a route before one of the login that has the same path."""
    app.router.routes.insert(0, Route(app.routes[0].path, lambda _: PlainTextResponse("hello")))
    return app


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (changes_backend, "it changes the arguments of the middleware AuthenticationMiddleware"),
        (removes_backend, "it removes the middleware AuthenticationMiddleware"),
        (wraps_metadata, "it replaces the route /.well-known/oauth-protected-resource/mcp"),
        (shadows_metadata, "it replaces the route /.well-known/oauth-protected-resource/mcp"),
    ],
)
def test_a_changed_login_stops_the_start(change: Callable[[Any], Any], what: str) -> None:
    """The login of a replica is the auth provider's. What `http_app` changes in it cannot be served."""
    assert refused(with_login(changing("Changing", change))).startswith(f"Changing.http_app: {what}")


def test_a_replaced_exception_handler_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers are compared by their code, not only by what they handle."""
    plain = FastMCP.http_app

    def handling(self: FastMCP, *args: Any, **kwargs: Any) -> Any:
        app = plain(self, *args, **kwargs)
        app.add_exception_handler(404, lambda *_: PlainTextResponse("FastMCP knows nothing", 404))
        return app

    monkeypatch.setattr(FastMCP, "http_app", handling)
    create_app(changing("Keeping", lambda app: app)("server"), Settings(mcp_components=()))
    text = refused(changing("Changing", handles_errors)("server"))
    assert text.startswith("Changing.http_app: it replaces the exception handler of 404")


def with_info(kind: type[FastMCP]) -> FastMCP:
    """Return a server with a custom route."""
    mcp = kind("server")

    @mcp.custom_route("/info", methods=["GET"])
    async def info(_: Request) -> Response:
        return PlainTextResponse("first")

    return mcp


def route_first(app: Any) -> Any:
    """Add a route before the custom route of the same path."""
    app.router.routes.insert(0, Route("/info", lambda _: PlainTextResponse("guarded", 401)))
    return app


def route_last(app: Any) -> Any:
    """Add a route after the custom route of the same path."""
    app.router.routes.append(Route("/info", lambda _: PlainTextResponse("guarded", 401)))
    return app


def route_wrapped(app: Any) -> Any:
    """Put a guard around the custom route."""
    route = next(each for each in app.routes if each.path == "/info")
    route.app = Guard(route.app, "open")
    return app


@pytest.mark.parametrize(
    ("change", "status"), [(route_first, 401), (route_last, 200), (route_wrapped, 401), (lambda app: app, 200)]
)
def test_a_route_at_the_path_of_a_custom_route(change: Callable[[Any], Any], status: int) -> None:
    """The routes answer in the same order as in FastMCP's app."""
    with served(with_info(changing("Changing", change))) as client:
        assert client.http.get("/info").status_code == status
        assert client.call("echo", text="hello") == "hello"


def test_a_removed_route_stops_the_start() -> None:
    """A custom route that `http_app` removes would be served all the same."""

    def removes_info(app: Any) -> Any:
        app.router.routes[:] = [each for each in app.routes if each.path != "/info"]
        return app

    text = refused(with_info(changing("Changing", removes_info)))
    assert text.startswith("Changing.http_app: it removes the route /info")


class OneHost(FastMCP):
    """A server that accepts one more name in the header `Host`."""

    def http_app(self, **options: Any) -> Any:  # type: ignore[override]
        return super().http_app(host_origin_protection=True, allowed_hosts=["a.test"], **options)


@pytest.mark.parametrize("default", [False, True])
def test_a_check_of_hosts_with_other_arguments_is_served(default: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """FastMCP's check of the header `Host` has the arguments that `http_app` passes, whatever its default is."""
    # A copy, because the settings remember for later tests that somebody has set them.
    changed = fastmcp.settings.model_copy(update={"http_host_origin_protection": default})
    monkeypatch.setattr(fastmcp, "settings", changed)
    with served(OneHost("server"), allowed_hosts=("a.test", "b.test")) as client:
        for host, status in (("a.test", 200), ("b.test", 421)):
            assert client.http.post("/mcp", json=CALL, headers={**HEADERS, "Host": host}).status_code == status


def changes_little(app: Any) -> Any:
    """Change what has an effect here, or none under FastMCP: middleware, an early stack, state, attributes."""
    app.user_middleware.insert(0, Middleware(Guard, password="open"))
    app.router.routes.append(Route("/greeting", lambda request: PlainTextResponse(request.app.state.greeting)))
    app.state.greeting = "good morning"
    app.note = "an attribute that Starlette does not know"
    app.router.redirect_slashes = False
    app.middleware_stack = app.build_middleware_stack()
    return app


@pytest.mark.parametrize("made", [with_login, with_info])
@pytest.mark.parametrize("copied", [False, True])
def test_harmless_changes_do_not_stop_the_start(made: Callable[[type[FastMCP]], FastMCP], copied: bool) -> None:
    """A server that adds to FastMCP's app starts: with a login, with custom routes, and in a Starlette of its own."""

    class Renamed(Starlette):
        def describe(self) -> str:
            return "a method that Starlette does not have"

    def change(app: Any) -> Any:
        if copied:
            app = Renamed(routes=app.routes, middleware=app.user_middleware, lifespan=app.lifespan, debug=app.debug)
        return changes_little(app)

    with served(made(changing("Changing", change))) as client:
        headers = {**HEADERS, "Authorization": "Bearer known"}
        assert client.http.post("/mcp", json=CALL, headers=headers).status_code == 401
        headers["X-Password"] = "open"
        assert client.http.post("/mcp", json=CALL, headers=headers).status_code == 200
        assert client.http.get("/greeting", headers=headers).text == "good morning"


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
