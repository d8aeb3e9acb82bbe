"""The FastMCP instance and what was discovered for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.tools import Tool
from fastmcp.utilities.components import FastMCPComponent

from server import __version__
from server.access.visibility import Visibility
from server.cache.cache import Cache
from server.call_guard import CallGuard, bounded
from server.checks import Check
from server.config import Settings
from server.containment import AsyncFunction
from server.discovery import DiscoveryError, Found, discover
from server.exchange import sdk
from server.not_found import answer_not_found
from server.shared import request_state
from server.work.desk import Desk
from server.work.job import Job
from server.work.tasks import JobTasks
from server.work.tools import JOB_TOOLS, tools_of


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
    """The MCP server, and what was found for it."""

    mcp: FastMCP
    catalogue: Catalogue
    timeouts: Mapping[str, float]
    """Seconds that a tool's author gives its calls, by tool's name."""
    jobs: Mapping[str, Job]
    """By name; to be offered by `offer_jobs`."""
    cache: Cache
    """Of tools' results."""
    checks: list[Check]
    """Of what tools need."""


def build(settings: Settings) -> McpApp:
    """Discover the components and put them into a FastMCP server.

    Raises:
        DiscoveryError: something discovered can't be served.
    """
    discovered = discover(settings)
    found = discovered.components
    timeouts = {item.component.name: item.timeout for item in found if item.timeout is not None}
    mcp: FastMCP = FastMCP(
        settings.mcp_name,  # fixed: a name that differs between replicas breaks sealed request state
        version=__version__,
        on_duplicate="error",
        mask_error_details=not settings.debug_errors,
        dereference_schemas=settings.dereference_schemas,
        middleware=[
            CallGuard(settings.call_timeout_seconds, timeouts),
            *discovered.middleware,
            *([Visibility()] if settings.api_keys_file else []),
        ],
        request_state_security=request_state.security(settings),
    )
    sdk.low_level(mcp).middleware.append(answer_not_found)
    for item in found:
        _add(mcp, item.component)
    if discovered.completion is not None:
        mcp.add_completion_handler(_within(settings.call_timeout_seconds, discovered.completion))
    tools = {item.component.name: item.where for item in found if isinstance(item.component, Tool)}
    for name in (*discovered.jobs, *(JOB_TOOLS if discovered.jobs else ())):
        if name in tools:
            raise DiscoveryError(f"{tools[name]}: tool {name!r} has the name of a job's tool")
    catalogue = _catalogue(found, discovered.jobs)
    return McpApp(mcp, catalogue, timeouts, discovered.jobs, discovered.cache, discovered.checks)


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
