"""Registration of the discovered components with the FastMCP server."""

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakSet

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.tools import Tool

from anyreplica.auth.visibility import Visibility
from anyreplica.components.asking import may_ask
from anyreplica.components.call_limits import CallLimits, bounded
from anyreplica.components.discovery import Discovered, Found, discover
from anyreplica.components.importing import DiscoveryError
from anyreplica.components.outcome import answer_not_found
from anyreplica.components.prepare import WrapTool
from anyreplica.mcp import request_state
from anyreplica.mcp.catalogue import name_of
from anyreplica.mcp.compat import mounts, sdk
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.compat.threads import Threads
from anyreplica.mcp.sdk_components import asking, serve_sdk_server
from anyreplica.mcp.server_setup import ServerSetup
from anyreplica.settings import CoreSettings
from anyreplica.settings.errors import StartupError

_COMPLETED: WeakSet[FastMCP] = WeakSet()
"""The servers that have got the components of the packs."""


def check_every_part_is_served(mcp: FastMCP, parts: Iterable[tuple[str, object]]) -> None:
    """Check that the server uses every part of a FastMCP server that discovery found, and every file it reads.

    Args:
        parts: servers, providers, transforms, extensions and auth providers, each with its place and name.

    Raises:
        StartupError: a part belongs to no server that is served, or a file of a `FileSystemProvider` cannot be
            imported.
    """
    served = mounts.parts_of(mcp)
    for where, part in parts:
        if all(part is not each for each in served):
            kind = "FastMCP server" if isinstance(part, FastMCP) else type(part).__name__
            raise StartupError(
                f"{where}: this {kind} is not served, because no server uses it; mount it in the server, or pass it to "
                "create_app (in the template: server/mcp_app.py and server/server.py)"
            )
    for file, error in mounts.failed_files(mcp):
        raise StartupError(f"{file}: {' '.join(error.split())}")


def serve_components(
    mcp: FastMCP, settings: CoreSettings, wraps: Sequence[WrapTool], middleware: Sequence[Middleware] = ()
) -> tuple[Discovered, ServerSetup]:
    """Adopt a server, add the components of the packs in `MCP_COMPONENTS` to it, and limit the time of all calls.

    Args:
        wraps: functions that put the features around each tool.
        middleware: the middleware of the features. The time limit of a call holds for each call that it makes.

    Raises:
        StartupError: a component cannot be served.
    """
    if isinstance(mcp, SdkServer):
        return serve_sdk_server(mcp, settings)
    discovered = discover(settings, Threads, wraps)
    found = discovered.components
    if found and mcp in _COMPLETED:
        raise StartupError(
            "create_app got the same FastMCP object a second time, and MCP_COMPONENTS has already added components to "
            "it; make a new object in each call (in the template: inside of create_mcp in server/mcp_app.py)"
        )
    setup = ServerSetup(
        mcp,
        discovered.preparation.prepare,
        shows_errors=settings.debug_errors,
        limits_tools=settings.api_keys_file is not None,
    )
    if sdk.has_random_name(mcp):
        sdk.rename(mcp, settings.mcp_name)
    sdk.seal_states(mcp, request_state.security(settings), settings.mcp_name)
    lists = [each for each in mcp.middleware if isinstance(each, DereferenceRefsMiddleware)]
    mcp.middleware[:] = [
        *middleware,
        CallLimits(settings.call_timeout_seconds, setup.timeouts),
        *(each for each in mcp.middleware if each not in lists),
        *discovered.middleware,
        *([Visibility()] if settings.api_keys_file else []),
        *(lists if settings.dereference_schemas else []),
    ]
    sdk.low_level(mcp).middleware.append(answer_not_found)
    with sdk.refusing_duplicates(mcp):
        for item in found:
            _add(mcp, item)
    if found:
        _COMPLETED.add(mcp)
    try:
        setup.apply()
    except ValueError as error:
        raise StartupError(" ".join(str(error).split())) from error
    check_every_part_is_served(mcp, discovered.parts)
    if (suggest := discovered.completion) is not None:

        async def in_time(*arguments: Any) -> Any:
            return await bounded(suggest(*arguments), "prompt", "completion", settings.call_timeout_seconds)

        mcp.add_completion_handler(in_time)
    return discovered, setup


def cannot_ask(mcp: FastMCP, settings: CoreSettings) -> str:
    """Return a sentence that names the components that cannot ask handshake-protocol clients; empty if all can."""
    names = sorted(name_of(component) for component in mounts.local_components(mcp) if may_ask(component))
    if isinstance(mcp, SdkServer):
        names = asking(mcp)
    if not names or settings.handshake_sessions != "off":
        return ""
    return f"HANDSHAKE_SESSIONS is off: these components cannot ask handshake-protocol clients: {', '.join(names)}"


def _add(mcp: FastMCP, item: Found) -> None:
    component = item.component
    try:
        match component:
            case Tool():
                mcp.add_tool(component)
            case Resource():
                mcp.add_resource(component)
            case ResourceTemplate():
                mcp.add_template(component)
            case Prompt():
                mcp.add_prompt(component)
    except ValueError as error:
        raise DiscoveryError(f"{item.where}: {error}") from error
