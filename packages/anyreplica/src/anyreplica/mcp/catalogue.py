"""The catalogue: the list of a server's components for people."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.tools import Tool
from fastmcp.utilities.components import FastMCPComponent

from anyreplica.components.job import Job
from anyreplica.mcp.job_tools import JOB_TOOLS


@dataclass(frozen=True)
class CatalogueEntry:
    """The name and description of one component in the catalogue."""

    name: str
    description: str


@dataclass
class Catalogue:
    """The list of a server's components for people, sorted by name.

    Before the server has started, the list has no components of mounted servers and of providers.
    """

    tools: list[CatalogueEntry] = field(default_factory=list)
    resources: list[CatalogueEntry] = field(default_factory=list)
    prompts: list[CatalogueEntry] = field(default_factory=list)
    jobs: list[CatalogueEntry] = field(default_factory=list)

    @classmethod
    def of(cls, components: Iterable[FastMCPComponent], jobs: Mapping[str, Job]) -> "Catalogue":
        """Return the catalogue of these components and jobs."""
        made = cls(jobs=[CatalogueEntry(name, _summary(job.description)) for name, job in sorted(jobs.items())])
        made._take(components)
        return made

    async def read(self, mcp: FastMCP) -> None:
        """Read the components that the server has now, with those of mounted servers and of providers."""
        self._take(
            [
                *await mcp.list_tools(run_middleware=False),
                *await mcp.list_resources(run_middleware=False),
                *await mcp.list_resource_templates(run_middleware=False),
                *await mcp.list_prompts(run_middleware=False),
            ]
        )

    @property
    def kinds(self) -> list[tuple[str, list[CatalogueEntry]]]:
        """The entries by kind: tools, resources, prompts, jobs."""
        return list(vars(self).items())

    @property
    def counts(self) -> str:
        """The number of entries of each kind, as text."""
        return ", ".join(f"{kind} {len(entries)}" for kind, entries in self.kinds)

    def __str__(self) -> str:
        """Return one line per kind. Empty kinds are left out."""
        lines = [f"{kind:<10} {', '.join(entry.name for entry in entries)}" for kind, entries in self.kinds if entries]
        return "\n".join(lines) or "no tools, resources, prompts or jobs"

    def _take(self, components: Iterable[FastMCPComponent]) -> None:
        of_jobs = {entry.name for entry in self.jobs} | {*(JOB_TOOLS if self.jobs else ())}
        found = list(components)
        self.tools = [entry for entry in _entries(found, Tool) if entry.name not in of_jobs]
        self.resources = _entries(found, Resource, ResourceTemplate)
        self.prompts = _entries(found, Prompt)


def name_of(component: FastMCPComponent) -> str:
    """Return the name of a component, or the URI of a resource."""
    match component:
        case Resource():
            return str(component.uri)
        case ResourceTemplate():
            return component.uri_template
        case _:
            return component.name


def _entries(components: Iterable[FastMCPComponent], *kinds: type[FastMCPComponent]) -> list[CatalogueEntry]:
    """Return one entry for each name. A component may have several versions."""
    found = {name_of(each): _summary(each.description or "") for each in components if isinstance(each, kinds)}
    return [CatalogueEntry(name, description) for name, description in sorted(found.items())]


def _summary(description: str) -> str:
    return description.partition("\n\n")[0]
