"""The catalogue: the list of a server's components for people."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import fastmcp
from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.tools import Tool
from fastmcp.utilities.components import FastMCPComponent

from anyreplica.components.job import JOB_TOOLS, Job
from anyreplica.mcp.compat import mounts
from anyreplica.mcp.compat.sdk_server import SdkServer

logger = logging.getLogger(__name__)

OWN_LISTS = "the server itself lists its components to clients"


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
    note: str = ""
    """What people read instead, if only the server's own code has the lists."""
    for_jobs: int | None = None
    """Number of tools that clients see because there are jobs; 0 if jobs are off. None: nobody has listed the tools."""

    @classmethod
    def of(cls, components: Iterable[FastMCPComponent], jobs: Mapping[str, Job]) -> "Catalogue":
        """Return the catalogue of these components and jobs."""
        made = cls(jobs=[CatalogueEntry(name, _summary(job.description)) for name, job in sorted(jobs.items())])
        made._add(components)
        return made

    async def read(self, mcp: FastMCP, *, asks: bool = False) -> bool:
        """Read the components that the server has now, with those of mounted servers and of providers.

        Return False, and read nothing, if a provider cannot list its components now, for example because the server
        behind a proxy is away.

        Args:
            asks: whether to ask the code of a server of the SDK, too. Without it, a low-level `Server` has a note only.
        """
        if isinstance(mcp, SdkServer):
            self.note = "" if asks or mcp.has_components else OWN_LISTS
            listed = await mcp.listed() if asks else mcp.registered
            resources = [(str(each.uri), each.description) for each in listed.resources]
            resources += [(each.uri_template, each.description) for each in listed.templates]
            self.tools = _sorted([(each.name, each.description) for each in listed.tools])
            self.resources = _sorted(resources)
            self.prompts = _sorted([(each.name, each.description) for each in listed.prompts])
            return True
        try:
            found = [
                *await mcp.list_tools(run_middleware=False),
                *await mcp.list_resources(run_middleware=False),
                *await mcp.list_resource_templates(run_middleware=False),
                *await mcp.list_prompts(run_middleware=False),
            ]
        except Exception:
            if not mounts.has_unsteady_provider(mcp):
                raise
            logger.debug("The components cannot be listed", exc_info=True)
            return False
        self._add(found)
        self.for_jobs = len({each.name for each in found if isinstance(each, Tool)} & self._names_for_jobs)
        return True

    @property
    def kinds(self) -> list[tuple[str, list[CatalogueEntry]]]:
        """The entries by kind: tools, resources, prompts, jobs."""
        return [(kind, entries) for kind, entries in vars(self).items() if isinstance(entries, list)]

    @property
    def counts(self) -> str:
        """The number of components of each kind, as text. The tools are those that `tools/list` shows."""
        if self.note:
            return self.note
        counts = {kind: len(entries) for kind, entries in self.kinds}
        for_jobs = len(self._names_for_jobs) if self.for_jobs is None else self.for_jobs
        counts["tools"] += for_jobs
        if not for_jobs:
            counts["jobs"] = 0
        return ", ".join(f"{kind} {count}" for kind, count in counts.items())

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, *, offers_jobs: bool = True) -> list[str]:
        """Return one line per kind. Empty kinds are left out.

        Args:
            offers_jobs: Whether callers can use the jobs.
        """
        names = {kind: ", ".join(entry.name for entry in entries) for kind, entries in self.kinds}
        if not offers_jobs:
            names["jobs"] = ""
        elif self.jobs:
            names["tools"] = f"{names['tools']}, and {len(self._names_for_jobs)} for jobs".removeprefix(", and ")
        found = [f"{kind:<10} {text}" for kind, text in names.items() if text]
        return found or [self.note or "no tools, resources, prompts or jobs"]

    @property
    def _names_for_jobs(self) -> set[str]:
        """Names of the tools that clients see because there are jobs."""
        return {*JOB_TOOLS, *(entry.name for entry in self.jobs)} if self.jobs else set()

    def _add(self, components: Iterable[FastMCPComponent]) -> None:
        found = list(components)
        self.tools = [entry for entry in _entries(found, Tool) if entry.name not in self._names_for_jobs]
        self.resources = _entries(found, Resource, ResourceTemplate)
        self.prompts = _entries(found, Prompt)


def version_of(mcp: FastMCP) -> str:
    """Return the version that the author has given a server; empty if it has FastMCP's own version, the default."""
    return "" if mcp.version in (None, fastmcp.__version__) else str(mcp.version)


def title_of(name: str, mcp: FastMCP) -> str:
    """Return the name of a server, with the version that its author has given it."""
    return f"{name} {version_of(mcp)}".rstrip()


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
    return _sorted((name_of(each), each.description) for each in components if isinstance(each, kinds))


def _sorted(found: Iterable[tuple[str, str | None]]) -> list[CatalogueEntry]:
    described = {name: _summary(description or "") for name, description in found}
    return [CatalogueEntry(name, description) for name, description in sorted(described.items())]


def _summary(description: str) -> str:
    return description.partition("\n\n")[0]
