"""The routes that the author of a FastMCP server has added with `@mcp.custom_route`."""

from collections.abc import Iterable, Sequence

from fastmcp import FastMCP
from starlette.routing import BaseRoute, Route

from anyreplica.mcp import _mounts
from anyreplica.settings.errors import StartupError

_MCP = frozenset({"/mcp", "/mcp/"})


def custom_routes(mcp: FastMCP, own: Iterable[BaseRoute]) -> Sequence[BaseRoute]:
    """Return the custom routes of a server and of the servers that are mounted in it.

    Args:
        own: The routes of this package, which come first. The page at `/` is not among them: a custom route may
            replace it.

    Raises:
        StartupError: A custom route has the path of one of these routes, so no request would reach it.
    """
    taken = _MCP | {route.path for route in own if isinstance(route, Route)}
    routes = _mounts.custom_routes(mcp)
    for route in routes:
        if isinstance(route, Route) and route.path in taken:
            raise StartupError(f"custom_route {route.path}: anyreplica serves this path itself; choose another path")
    return routes
