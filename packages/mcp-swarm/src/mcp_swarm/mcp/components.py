"""What was discovered, added to the FastMCP server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.tools import Tool
from fastmcp.utilities.components import FastMCPComponent

from mcp_swarm.auth.visibility import Visibility
from mcp_swarm.components.cache.cache import Cache
from mcp_swarm.components.call_limits import CallGuard, bounded
from mcp_swarm.components.checks import Check
from mcp_swarm.components.containment import AsyncFunction
from mcp_swarm.components.discovery import DiscoveryError, Found, discover
from mcp_swarm.components.job import Job
from mcp_swarm.components.not_found import answer_not_found
from mcp_swarm.jobs.service import Desk
from mcp_swarm.mcp import _sdk, request_state
from mcp_swarm.mcp.job_tools import JOB_TOOLS, tools_of
from mcp_swarm.mcp.tasks import JobTasks
from mcp_swarm.settings import Settings


@dataclass(frozen=True)
class Entry:
    """One line of the catalogue."""

    name: str
    description: str


@dataclass(frozen=True)
class Catalogue:
    """What this server offers, as people read it; sorted by name."""

    tools: list[Entry]
    resources: list[Entry]
    prompts: list[Entry]
    jobs: list[Entry]

    @property
    def kinds(self) -> list[tuple[str, list[Entry]]]:
        """What there is, by kind."""
        return [
            ("tools", self.tools),
            ("resources", self.resources),
            ("prompts", self.prompts),
            ("jobs", self.jobs),
        ]

    @property
    def counts(self) -> str:
        """How many there are of each kind."""
        return ", ".join(f"{kind} {len(entries)}" for kind, entries in self.kinds)

    def __str__(self) -> str:
        """A line a kind, without what there is none of."""
        lines = [f"{kind:<10} {', '.join(entry.name for entry in entries)}" for kind, entries in self.kinds if entries]
        return "\n".join(lines) or "no tools, resources, prompts or jobs"


@dataclass(frozen=True)
class McpApp:
    """What was found for a server."""

    catalogue: Catalogue
    timeouts: Mapping[str, float]
    """Seconds that a tool's author gives its calls, by tool's name."""
    jobs: Mapping[str, Job]
    """By name; to be offered by `offer_jobs`."""
    cache: Cache
    """Of tools' results."""
    checks: list[Check]
    """Of what tools need."""


def serve_components(mcp: FastMCP, settings: Settings) -> McpApp:
    """Add what `MCP_COMPONENTS` names to a server, and put the bounds of calls around everything that it serves.

    Raises:
        DiscoveryError: something discovered can't be served.
    """
    discovered = discover(settings)
    found = discovered.components
    timeouts = {item.component.name: item.timeout for item in found if item.timeout is not None}
    _sdk.adopt(mcp, request_state.security(settings), settings.mcp_name, mask_errors=not settings.debug_errors)
    lists = [each for each in mcp.middleware if isinstance(each, _sdk.BUILT_IN_MIDDLEWARE)]
    mcp.middleware[:] = [
        CallGuard(settings.call_timeout_seconds, timeouts),
        *(each for each in mcp.middleware if each not in lists),
        *discovered.middleware,
        *([Visibility()] if settings.api_keys_file else []),
        *(lists if settings.dereference_schemas else []),
    ]
    _sdk.low_level(mcp).middleware.append(answer_not_found)
    for item in found:
        _add(mcp, item.component)
    if discovered.completion is not None:
        mcp.add_completion_handler(_within(settings.call_timeout_seconds, discovered.completion))
    tools = {item.component.name: item.where for item in found if isinstance(item.component, Tool)}
    for name in (*discovered.jobs, *(JOB_TOOLS if discovered.jobs else ())):
        if name in tools:
            raise DiscoveryError(f"{tools[name]}: tool {name!r} has the name of a job's tool")
    catalogue = _catalogue(found, discovered.jobs)
    return McpApp(catalogue, timeouts, discovered.jobs, discovered.cache, discovered.checks)


def offer_jobs(mcp: FastMCP, desk: Desk, settings: Settings) -> None:
    """Add the tools of jobs, and the protocol's tasks where requests come one by one."""
    for tool in tools_of(desk):
        mcp.add_tool(tool)
    if not desk.off and settings.stateless_http and settings.json_response != "false":
        mcp.add_extension(JobTasks(desk))


def _within(seconds: float, suggest: AsyncFunction) -> AsyncFunction:
    async def in_time(*arguments: Any) -> Any:
        return await bounded(suggest(*arguments), "prompt", "completion", seconds)

    return in_time


def _add(mcp: FastMCP, component: FastMCPComponent) -> None:
    match component:
        case Tool():
            mcp.add_tool(component)
        case Resource():
            mcp.add_resource(component)
        case ResourceTemplate():
            mcp.add_template(component)
        case Prompt():
            mcp.add_prompt(component)


def _catalogue(found: list[Found], jobs: Mapping[str, Job]) -> Catalogue:
    def entries(*kinds: type[FastMCPComponent]) -> list[Entry]:
        chosen = [item for item in found if isinstance(item.component, kinds)]
        return sorted((_entry(item.component) for item in chosen), key=lambda entry: entry.name)

    offered = [Entry(name, job.description.partition("\n\n")[0]) for name, job in sorted(jobs.items())]
    return Catalogue(entries(Tool), entries(Resource, ResourceTemplate), entries(Prompt), offered)


def _entry(component: FastMCPComponent) -> Entry:
    match component:
        case Resource():
            name = str(component.uri)
        case ResourceTemplate():
            name = component.uri_template
        case _:
            name = component.name
    return Entry(name, (component.description or "").partition("\n\n")[0])
