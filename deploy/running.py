"""What of a stack runs now."""

from dataclasses import dataclass
from typing import Any

from deploy.docker import docker, inspect

OVERLAYS = "mcp-swarm.overlays"
"""Label of the service `mcp`: the overlays that it was deployed with, separated by spaces."""


@dataclass(frozen=True)
class Service:
    """A service as Swarm knows it."""

    name: str
    found: dict[str, Any]

    @property
    def replicas(self) -> int | None:
        """How many replicas it is to have; None if it has one on each node."""
        replicated = self.found["Spec"]["Mode"].get("Replicated")
        return None if replicated is None else int(replicated.get("Replicas", 0))

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its containers."""
        container = self.found["Spec"]["TaskTemplate"]["ContainerSpec"]
        return dict(line.split("=", 1) for line in container.get("Env") or () if "=" in line)

    @property
    def secrets(self) -> set[str]:
        """The names of the secrets' files in its containers."""
        container = self.found["Spec"]["TaskTemplate"]["ContainerSpec"]
        return {each["File"]["Name"] for each in container.get("Secrets") or () if each.get("File")}

    @property
    def overlays(self) -> str | None:
        """The overlays that the stack was deployed with; None if that isn't known."""
        found: str | None = (self.found["Spec"].get("Labels") or {}).get(OVERLAYS)
        return found

    @property
    def update(self) -> tuple[str, str]:
        """When its last update began, and what has become of it: `completed`, `rollback_completed` and others."""
        status = self.found.get("UpdateStatus") or {}
        return status.get("StartedAt", ""), status.get("State", "")

    @property
    def published(self) -> list[int]:
        """The ports of the nodes that lead to it."""
        ports = (self.found.get("Endpoint") or {}).get("Ports") or ()
        return [int(port["PublishedPort"]) for port in ports if port.get("PublishedPort")]


def services(stack: str) -> dict[str, Service]:
    """The services of a stack, each by its name without the stack's.

    Raises:
        DockerError: docker doesn't reach a Swarm's manager.
    """
    ids = docker("service", "ls", "--quiet", "--filter", f"label=com.docker.stack.namespace={stack}").split()
    found = inspect("service", *ids)
    return {each["Spec"]["Name"].removeprefix(f"{stack}_"): Service(each["Spec"]["Name"], each) for each in found}
