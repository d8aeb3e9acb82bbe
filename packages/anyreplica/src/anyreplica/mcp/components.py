"""Registration of the discovered components with the FastMCP server."""

from typing import Any

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.tools import Tool

from anyreplica.auth.visibility import Visibility
from anyreplica.components.asking import may_ask
from anyreplica.components.call_limits import CallLimits, bounded
from anyreplica.components.discovery import Discovered, Found, discover
from anyreplica.components.importing import DiscoveryError
from anyreplica.components.not_found import answer_not_found
from anyreplica.jobs.service import JobService
from anyreplica.mcp import _mounts, _sdk, request_state
from anyreplica.mcp._sdk_server import SdkServer
from anyreplica.mcp.adoption import Adoption
from anyreplica.mcp.catalogue import name_of
from anyreplica.mcp.job_tools import JOB_TOOLS, tools_of
from anyreplica.mcp.rounds import Rounds
from anyreplica.mcp.sdk_components import asking, serve_sdk_server
from anyreplica.mcp.server_tasks import offer_tasks
from anyreplica.mcp.unserved import refuse_unserved
from anyreplica.settings import Settings
from anyreplica.settings.errors import StartupError
from anyreplica.settings.extras import require_extra


def serve_components(mcp: FastMCP, settings: Settings) -> tuple[Discovered, Adoption]:
    """Adopt a server, add the components of the packs in `MCP_COMPONENTS` to it, and limit the time of all calls.

    Raises:
        StartupError: a component cannot be served.
    """
    if isinstance(mcp, SdkServer):
        return serve_sdk_server(mcp, settings)
    discovered = discover(settings)
    found = discovered.components
    adoption = Adoption(
        mcp,
        discovered.preparation.prepare,
        shows_errors=settings.debug_errors,
        limits_tools=settings.api_keys_file is not None,
    )
    if _sdk.has_random_name(mcp):
        _sdk.rename(mcp, settings.mcp_name)
    _sdk.seal_states(mcp, request_state.security(settings), settings.mcp_name)
    lists = [each for each in mcp.middleware if isinstance(each, DereferenceRefsMiddleware)]
    mcp.middleware[:] = [
        Rounds(),
        CallLimits(settings.call_timeout_seconds, adoption.timeouts),
        *(each for each in mcp.middleware if each not in lists),
        *discovered.middleware,
        *([Visibility()] if settings.api_keys_file else []),
        *(lists if settings.dereference_schemas else []),
    ]
    _sdk.low_level(mcp).middleware.append(answer_not_found)
    with _sdk.refusing_duplicates(mcp):
        for item in found:
            _add(mcp, item)
    try:
        adoption.adopt()
    except ValueError as error:
        raise StartupError(" ".join(str(error).split())) from error
    refuse_unserved(mcp, discovered.parts)
    if (suggest := discovered.completion) is not None:

        async def in_time(*arguments: Any) -> Any:
            return await bounded(suggest(*arguments), "prompt", "completion", settings.call_timeout_seconds)

        mcp.add_completion_handler(in_time)
    tools = {item.component.name: item.where for item in found if isinstance(item.component, Tool)}
    for name in (*discovered.jobs, *(JOB_TOOLS if discovered.jobs else ())):
        if name in tools:
            raise DiscoveryError(f"{tools[name]}: tool {name!r} has the name of a job or a job tool; rename the tool")
        if name in JOB_TOOLS and name in discovered.jobs:
            raise DiscoveryError(f"Job {name!r}: anyreplica has a tool with this name; rename the job")
    return discovered, adoption


def cannot_ask(mcp: FastMCP, settings: Settings) -> str:
    """Return a sentence that names the components that cannot ask handshake-protocol clients; empty if all can."""
    names = sorted(name_of(component) for component in _mounts.local_components(mcp) if may_ask(component))
    if isinstance(mcp, SdkServer):
        names = asking(mcp)
    if not names or settings.handshake_sessions != "off":
        return ""
    return f"HANDSHAKE_SESSIONS is off: these components cannot ask handshake-protocol clients: {', '.join(names)}"


def offer_jobs(mcp: FastMCP, service: JobService, settings: Settings) -> None:
    """Add the job tools, and the tasks extension for jobs and for tools with `task=True`.

    Raises:
        StartupError: the packages of jobs are not installed, or the tasks of tools cannot run, see `offer_tasks`.
    """
    if service.jobs:
        require_extra("jobs", f"job {min(service.jobs)!r}")
    for tool in tools_of(service):
        mcp.add_tool(tool)
    offer_tasks(mcp, service, settings)


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
