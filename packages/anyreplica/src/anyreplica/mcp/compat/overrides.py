"""What a FastMCP server does in its own way: overridden methods, and what its own `http_app` adds.

FastMCP calls these methods in each request. The fast path and the cached lists do not, so they are only for servers
that answer as FastMCP does. This module uses private names of FastMCP, which `tests/test_private_names.py` lists.
"""

import inspect
from collections.abc import Iterable

from fastmcp import FastMCP
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from anyreplica.mcp.compat.sdk import low_level
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.settings.errors import StartupError

_OUTSIDE_OF_REQUESTS = frozenset(
    {"add_completion_handler", "add_extension", "add_middleware", "add_prompt", "add_provider", "add_resource"}
    | {"add_template", "add_tool", "add_transform", "completion", "custom_route", "disable", "enable", "get_tasks"}
    | {"http_app", "lifespan", "mount", "prompt", "resource", "run", "run_async", "run_http_async", "run_stdio_async"}
    | {"tool", "_get_additional_http_routes", "_lifespan_manager"}
)
"""Methods that FastMCP or the author calls before or after requests. Their overrides need no other path for calls."""
_NEVER_CALLED = ("run_async", "run_http_async")
"""Methods with which `fastmcp run` serves. This package serves in its own way."""
_LIBRARIES = ("anyreplica.", "fastmcp.", "mcp.")


def own_way(server: FastMCP) -> str:
    """Return a sentence that names what a server does in its own way in requests. Empty: it answers as FastMCP does."""
    if isinstance(server, SdkServer):
        return f"the server is of the MCP SDK ({server.kind})"
    for name in _overridden(server):
        if name not in _OUTSIDE_OF_REQUESTS:
            return f"{type(server).__name__} overrides {name}"
    sdk = low_level(server)
    for method, entry in sdk._request_handlers.items():
        handler = entry.handler
        if not f"{getattr(handler, '__module__', '')}.".startswith(_LIBRARIES):
            return f"the author handles {method}"
    for step in sdk.middleware:
        home = step if inspect.isroutine(step) else type(step)
        if not f"{home.__module__}.".startswith(_LIBRARIES):
            return f"the SDK's server has the middleware {home.__name__}"
    return ""


def _overridden(server: FastMCP) -> list[str]:
    """Return the methods of FastMCP that the class of a server, or the server itself, has instead of FastMCP's."""
    found = set(vars(server))
    for cls in type(server).__mro__:
        if f"{cls.__module__}.".startswith("fastmcp."):
            break
        found.update(vars(cls))
    return sorted(name for name in found if name[:2] != "__" and inspect.isroutine(getattr(FastMCP, name, None)))


def added_by_http_app(mcp: FastMCP, endpoint: str) -> tuple[list[Middleware], list[BaseRoute]]:
    """Return the ASGI middleware, outermost first, and the routes that the server's own `http_app` adds to FastMCP's.

    Raises:
        StartupError: the server has a method of its own whose effect would be lost. The text names the method.
    """
    methods = [] if isinstance(mcp, SdkServer) else _overridden(mcp)
    for name in _NEVER_CALLED:
        if name in methods:
            raise StartupError(
                f"{type(mcp).__name__}.{name}: anyreplica never calls this method, because it serves the app itself; "
                "put what the method adds into http_app, or into middleware= and routes= of create_app"
            )
    if "http_app" not in methods:
        return [], []
    where = f"{type(mcp).__name__}.http_app"
    accepted = inspect.signature(mcp.http_app).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
    options = {"path": endpoint, "stateless_http": True}
    options = {name: value for name, value in options.items() if takes_all or name in accepted}
    try:
        own = mcp.http_app(**options)  # type: ignore[arg-type]
    except Exception as error:
        raise StartupError(f"{where}: {type(error).__name__}: {error}") from error
    if not isinstance(own, Starlette):
        raise _lost(where, f"it returns {type(own).__name__} instead of FastMCP's app")
    plain = FastMCP.http_app(mcp, **options)  # type: ignore[arg-type]  # made second: the other may have set mcp.auth
    if _name(own.router.lifespan_context) != _name(plain.router.lifespan_context):
        raise _lost(where, "it replaces the lifespan")
    if own.exception_handlers.keys() - plain.exception_handlers.keys():
        raise _lost(where, "it adds exception handlers")
    at_mcp = [_shape(route) for route in own.routes if getattr(route, "path", "") == endpoint]
    if at_mcp != [_shape(route) for route in plain.routes if getattr(route, "path", "") == endpoint]:
        raise _lost(where, f"it replaces the route {endpoint}")
    known = {getattr(route, "path", "") for route in plain.routes}
    routes = [route for route in own.routes if getattr(route, "path", "") not in known]
    return _added(own.user_middleware, plain.user_middleware), routes


def _added(all_of_them: Iterable[Middleware], known: Iterable[Middleware]) -> list[Middleware]:
    left = [each.cls for each in known]
    added = []
    for each in all_of_them:
        if each.cls in left:
            left.remove(each.cls)
        else:
            added.append(each)
    return added


def _shape(route: BaseRoute) -> list[str]:
    """Return the classes of the ASGI apps of a route, from the outside to the inside."""
    shape, app = [], getattr(route, "app", None)
    while app is not None:
        shape.append(_name(app if inspect.isroutine(app) else type(app)))
        app = getattr(app, "app", None)
    return shape


def _name(item: object) -> str:
    return f"{getattr(item, '__module__', '')}.{getattr(item, '__qualname__', type(item).__qualname__)}"


def _lost(where: str, what: str) -> StartupError:
    return StartupError(
        f"{where}: {what}, which anyreplica cannot serve; add middleware and routes to FastMCP's app instead, or pass "
        "them to create_app as middleware= and routes="
    )
