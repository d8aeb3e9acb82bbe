"""The routes of a server's author beside those of this package, and who may use them."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from anyreplica.settings.errors import StartupError
from anyreplica.settings.replica import PathSettings

logger = logging.getLogger(__name__)


def arrange(needed: Iterable[BaseRoute], author: Sequence[BaseRoute], ours: Iterable[BaseRoute]) -> list[BaseRoute]:
    """Return all routes in the order in which a request tries them.

    The author's routes come before those of `ours`. A line of the log names each route that they replace.

    Args:
        needed: the routes of this package that a replica cannot do without.
        author: the routes of the server's author.
        ours: the other routes of this package.
    """
    ours = list(ours)
    for path in sorted(paths_of(author) & paths_of(ours) - {"/"}):
        logger.info("The server's own route %s replaces the one of anyreplica", path)
    return [*needed, *author, *ours]


def paths_of(*groups: Iterable[BaseRoute]) -> set[str]:
    """Return the paths of all routes in some groups."""
    return {route.path for group in groups for route in group if isinstance(route, Route)}


def refuse_needed_paths(routes: Iterable[BaseRoute], settings: PathSettings) -> None:
    """Raise StartupError if a route has a path that the replica needs. The text names the setting that moves it."""
    needed = {
        settings.mcp_path: ("the MCP endpoint", "MCP_PATH=/agents"),
        settings.liveness_path: ("the liveness probe", "LIVENESS_PATH=/livez"),
        settings.readiness_path: ("the readiness probe", "READINESS_PATH=/replica/ready"),
    }
    for route in routes:
        if isinstance(route, Route) and (found := needed.get(route.path.rstrip("/"))):
            what, move = found
            text = f"{what} has this path; set another path for it, for example {move}"
            raise StartupError(f"custom_route {route.path}: {text}")


def open_requests(
    routes: Sequence[BaseRoute], open_: Collection[BaseRoute], *, unknown: bool
) -> Callable[[Scope], bool]:
    """Return a function that says whether a request for a route needs no authentication.

    Args:
        routes: all routes, in the order in which a request tries them.
        open_: the routes that need no authentication.
        unknown: the result for a request that no route matches.
    """
    identities = {id(route) for route in open_}

    def is_open(scope: Scope) -> bool:
        partial: BaseRoute | None = None  # another method of this path; Starlette uses the first one
        for route in routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return id(route) in identities
            if match is Match.PARTIAL and partial is None:
                partial = route
        return unknown if partial is None else id(partial) in identities

    return is_open
