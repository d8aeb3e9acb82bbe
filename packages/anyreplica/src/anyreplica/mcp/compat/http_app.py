"""What the `http_app` of a subclass of FastMCP adds to FastMCP's app.

A replica serves an app of its own. It takes over the middleware, the routes and the state that a server's own
`http_app` adds. If `http_app` changes anything else, the replica does not start: the change may be what authenticates.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastmcp import FastMCP
from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match, Mount, Route, Router, WebSocketRoute

from anyreplica.mcp.compat.alike import alike
from anyreplica.mcp.compat.overrides import overridden
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.settings.errors import StartupError

_NEVER_CALLED = ("run_async", "run_http_async")
"""Methods with which `fastmcp run` serves. This package serves in its own way."""
_FASTMCPS_MIDDLEWARE = "fastmcp.server.http"
"""The module of the middleware in FastMCP's app that a replica does without: it has checks of its own."""
_LIBRARIES = ("fastmcp.", "starlette.")
_OF_CALLS = frozenset({"__call__", "__getattribute__"})
"""Special methods that take part in requests. Others, such as `__init__`, do not."""
_COMPARED_BY_PARTS = frozenset({"state", "router", "routes", "exception_handlers", "user_middleware"})
_WITHOUT_EFFECT = frozenset({"lifespan_context", "redirect_slashes"})
"""The lifespan is compared by its code, because it has the options of sessions. A replica never redirects."""
_MATCHING_BY_PATH = (Route.matches, Mount.matches, WebSocketRoute.matches)


@dataclass(frozen=True)
class Added:
    """What a server's own `http_app` adds.

    Attributes:
        middleware: ASGI middleware, outermost first.
        routes: routes in the order in which a request tries them. If `http_app` adds a route, the custom routes of the
            server are among them.
        state: values of `app.state`.
    """

    middleware: Sequence[Middleware] = ()
    routes: Sequence[BaseRoute] = ()
    state: Mapping[str, object] = field(default_factory=dict)


def added_by_http_app(mcp: FastMCP, endpoint: str) -> Added:
    """Return what the server's own `http_app` adds to FastMCP's app.

    Raises:
        StartupError: the server has a method of its own whose effect would be lost. The text names the method.
    """
    methods = [] if isinstance(mcp, SdkServer) else overridden(mcp)
    for name in _NEVER_CALLED:
        if name in methods:
            raise StartupError(
                f"{type(mcp).__name__}.{name}: anyreplica never calls this method, because it serves the app itself; "
                "put what the method adds into http_app, or into middleware= and routes= of create_app"
            )
    if "http_app" not in methods:
        return Added()
    where = f"{type(mcp).__name__}.http_app"
    accepted = inspect.signature(mcp.http_app).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
    options = {"path": endpoint, "stateless_http": True}
    options = {name: value for name, value in options.items() if takes_all or name in accepted}
    try:
        own = mcp.http_app(**options)  # type: ignore[arg-type]
        plain = FastMCP.http_app(mcp, **options)  # type: ignore[arg-type]  # made second: the other may set mcp.auth
    except Exception as error:
        raise StartupError(f"{where}: {type(error).__name__}: {error}") from error
    if not isinstance(own, Starlette):
        raise _lost(where, f"it returns {type(own).__name__} instead of FastMCP's app")
    try:
        return _compared(own, plain, mcp)
    except _LostError as lost:
        raise _lost(where, str(lost)) from None


class _LostError(Exception):
    """Something of a server's own app would be lost. The text says what it is."""


def _compared(own: Starlette, plain: Starlette, mcp: FastMCP) -> Added:
    """Return what an app has in addition to FastMCP's app.

    Raises:
        _LostError: something else differs.
    """
    for part, base in ((own, Starlette), (own.router, Router)):
        if name := _defined(part, base):
            raise _LostError(f"it uses a {type(part).__name__} with its own {name}")
    if _codes(own.router.lifespan_context) != _codes(plain.router.lifespan_context):
        raise _LostError("it replaces the lifespan")
    _compare_handlers(own.exception_handlers, plain.exception_handlers)
    routes = _added_routes(own.routes, plain.routes, plain.state.path, mcp._get_additional_http_routes())
    middleware = _added_middleware(own.user_middleware, plain.user_middleware)
    if own.middleware_stack is not None and alike(own.middleware_stack, own.build_middleware_stack()):
        own.middleware_stack = None  # it was only built early
    _compare_attributes(own, plain, [(own, plain), (own.router, plain.router)])
    _compare_attributes(own.router, plain.router, [(own, plain), (own.router, plain.router)])
    return Added(middleware, routes, _added_state(own.state, plain.state))


def _defined(thing: object, base: type) -> str:
    """Return a name of Starlette's class that the class of a thing defines itself; empty: there is none."""
    for cls in type(thing).__mro__:
        if cls.__module__.startswith(_LIBRARIES):
            return "" if isinstance(thing, base) else "class"
        for name in vars(cls):
            is_special = name.startswith("__") and name.endswith("__")
            if name in _OF_CALLS or (hasattr(base, name) and not is_special):
                return name
    return "class"


def _codes(function: object) -> list[object]:
    """Return the code of a function and of the functions that it wraps. The values in them do not count."""
    found: list[object] = []
    while function is not None:
        found.append(getattr(function, "__code__", type(function)))
        function = getattr(function, "__wrapped__", None)
    return found


def _compare_handlers(own: Mapping[Any, object], plain: Mapping[Any, object]) -> None:
    if own.keys() - plain.keys():
        raise _LostError("it adds exception handlers")
    for key, handler in plain.items():
        if key not in own or not alike(own[key], handler):
            raise _LostError(f"it replaces the exception handler of {getattr(key, '__name__', key)}")


def _compare_attributes(own: object, plain: object, assumed: Sequence[tuple[object, object]]) -> None:
    have, wanted = vars(own), vars(plain)
    for name in {**have, **wanted}.keys() - _COMPARED_BY_PARTS - _WITHOUT_EFFECT:
        if name in have and name in wanted:
            is_same = alike(have[name], wanted[name], assumed)
        else:
            is_same = name in have and not hasattr(type(plain), name)  # a value of the author's own
        if not is_same:
            raise _LostError(f"it replaces {name} of the {'router' if isinstance(own, Router) else 'app'}")


def _added_routes(
    own: Sequence[BaseRoute], plain: Sequence[BaseRoute], endpoint: str, custom: Sequence[BaseRoute]
) -> list[BaseRoute]:
    """Return the added routes and the custom ones, in the order of a server's own app; empty if nothing is added.

    Args:
        endpoint: the path of the MCP endpoint.
        custom: the custom routes. Both apps have the same objects.
    """
    movable = {id(route) for route in custom}
    fixed = [route for route in plain if id(route) not in movable]  # the MCP endpoint, and the routes of a login
    found: list[BaseRoute] = []
    for route in own:
        known = next((each for each in fixed if _is_same_route(route, each, endpoint)), None)
        if known is None or id(route) in movable:
            found.append(route)
            continue
        fixed = [each for each in fixed if each is not known]
        if any(_may_match(each, _path(known)) for each in found):
            raise _replaced(known)
    for route in fixed:
        raise _replaced(route)
    for route in found:
        if id(route) not in movable and _path(route) == endpoint:
            raise _replaced(route)
    for route in custom:
        if all(route is not each for each in found):
            raise _LostError(f"it removes the route {_path(route)}")
    return [] if [id(route) for route in found] == [id(route) for route in custom] else found


def _is_same_route(route: BaseRoute, known: BaseRoute, endpoint: str) -> bool:
    if _path(known) != endpoint:
        return alike(route, known)
    # The methods of the endpoint depend on the sessions, which settings decide.
    one, other = ({**vars(each), "methods": None} for each in (route, known))
    return type(route) is type(known) and alike(one, other)


def _may_match(route: BaseRoute, path: str) -> bool:
    """Return whether a route may answer a request for a path."""
    if "matches" in vars(route) or type(route).matches not in _MATCHING_BY_PATH:
        return True
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": []}
    return route.matches(scope)[0] is not Match.NONE


def _path(route: BaseRoute) -> str:
    return str(getattr(route, "path", ""))


def _replaced(route: BaseRoute) -> _LostError:
    return _LostError(f"it replaces the route {_path(route)}")


def _added_middleware(own: Sequence[Middleware], plain: Sequence[Middleware]) -> list[Middleware]:
    left, added = list(plain), []
    for each in own:
        known = next((other for other in left if alike(tuple(each), tuple(other))), None)
        if known is None:
            added.append(each)
        else:
            left.remove(known)
    for missing in left:
        # FastMCP's check of hosts is served with the arguments that http_app chooses.
        if _module(missing) != _FASTMCPS_MIDDLEWARE:
            is_changed = any(each.cls is missing.cls for each in added)
            done = "changes the arguments of" if is_changed else "removes"
            raise _LostError(f"it {done} the middleware {getattr(missing.cls, '__name__', missing.cls)}")
    return added


def _module(middleware: Middleware) -> str:
    return str(getattr(middleware.cls, "__module__", ""))


def _added_state(own: State, plain: State) -> dict[str, object]:
    known = {name: plain[name] for name in plain}
    for name in known.keys() & set(own):
        if not alike(own[name], known[name]):
            raise _LostError(f"it replaces state.{name} of the app")
    return {name: own[name] for name in own if name not in known}


def _lost(where: str, what: str) -> StartupError:
    return StartupError(
        f"{where}: {what}, which anyreplica cannot serve; add middleware and routes to FastMCP's app instead, or pass "
        "them to create_app as middleware= and routes="
    )
