"""What a FastMCP server does in its own way: the methods that it overrides.

FastMCP calls these methods in each request. The fast path and the cached lists do not, so they are only for servers
that answer as FastMCP does. This module uses private names of FastMCP, which `tests/test_private_names.py` lists.
"""

import inspect
from typing import Any

from fastmcp import FastMCP

from anyreplica.mcp.compat.sdk import low_level
from anyreplica.mcp.compat.sdk_server import SdkServer

_OUTSIDE_OF_REQUESTS = frozenset(
    {"add_completion_handler", "add_extension", "add_middleware", "add_prompt", "add_provider", "add_resource"}
    | {"add_template", "add_tool", "add_transform", "completion", "custom_route", "disable", "enable", "get_tasks"}
    | {"http_app", "lifespan", "mount", "prompt", "resource", "run", "run_async", "run_http_async", "run_stdio_async"}
    | {"tool", "_get_additional_http_routes", "_lifespan_manager"}
)
"""Methods that FastMCP or the author calls before or after requests. Their overrides need no other path for calls."""
_LIBRARIES = ("anyreplica.", "fastmcp.", "mcp.")


def own_way(server: FastMCP) -> str:
    """Return a sentence that names what a server does in its own way in requests. Empty: it answers as FastMCP does."""
    if isinstance(server, SdkServer):
        return server.path_reason
    for name in overridden(server):
        if name not in _OUTSIDE_OF_REQUESTS:
            return f"{type(server).__name__} overrides {name}"
    sdk = low_level(server)
    for method, entry in sdk._request_handlers.items():
        if not _is_of_library(entry.handler):
            return f"the author handles {method}"
    for step in sdk.middleware:
        home = step if inspect.isroutine(step) else type(step)
        if not _is_of_library(home):
            return f"the SDK's server has the middleware {home.__name__}"
    return ""


def needs_no_author(server: FastMCP, method: str) -> bool:
    """Return whether a request of this method runs no code of the author. A replica may then send it to itself."""
    sdk = low_level(server)
    entry = sdk.get_request_handler(method)
    homes = [each if inspect.isroutine(each) else type(each) for each in sdk.middleware]
    return all(map(_is_of_library, homes if entry is None else (*homes, entry.handler)))


def _is_of_library(home: Any) -> bool:
    return f"{getattr(home, '__module__', '')}.".startswith(_LIBRARIES)


def overridden(server: FastMCP) -> list[str]:
    """Return the methods of FastMCP that the class of a server, or the server itself, has instead of FastMCP's."""
    found = set(vars(server))
    for cls in type(server).__mro__:
        if f"{cls.__module__}.".startswith("fastmcp."):
            break
        found.update(vars(cls))
    return sorted(name for name in found if name[:2] != "__" and inspect.isroutine(getattr(FastMCP, name, None)))
