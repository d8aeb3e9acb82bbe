"""The state of the running stack."""

from dataclasses import dataclass
from typing import Any

from anyreplica.deploy.docker import docker, inspect

OVERLAYS = "anyreplica.overlays"
"""Label of the service `mcp`; its value is the list of overlays of the last deployment, separated by spaces."""

_FAILURES = {
    "paused": "paused it",
    "rollback_started": "is rolling it back",
    "rollback_paused": "could not roll it back",
    "rollback_completed": "rolled it back",
}
"""The states of a failed update, each with what Swarm did."""


@dataclass(frozen=True)
class RunningService:
    """A service of the running stack."""

    name: str
    found: dict[str, Any]
    """Output of `docker service inspect`."""

    @property
    def replicas(self) -> int | None:
        """The desired number of tasks; None for a global service, which has one task per node."""
        replicated = self.found["Spec"]["Mode"].get("Replicated")
        return None if replicated is None else int(replicated.get("Replicas", 0))

    @property
    def image(self) -> str:
        """The image of the service's containers, with the digest if it comes from a registry."""
        return str(self.found["Spec"]["TaskTemplate"]["ContainerSpec"]["Image"])

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the service's containers."""
        container = self.found["Spec"]["TaskTemplate"]["ContainerSpec"]
        return dict(line.split("=", 1) for line in container.get("Env") or () if "=" in line)

    @property
    def secrets(self) -> dict[str, str]:
        """The name of each secret of the service, by the name of its file in the containers."""
        container = self.found["Spec"]["TaskTemplate"]["ContainerSpec"]
        return {each["File"]["Name"]: each["SecretName"] for each in container.get("Secrets") or () if each.get("File")}

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the service."""
        return self.found["Spec"].get("Labels") or {}

    @property
    def overlays(self) -> str | None:
        """The overlays of the last deployment; None if the service has no label for them."""
        return self.labels.get(OVERLAYS)

    @property
    def update(self) -> tuple[str, str]:
        """Start time and state of the last update; the state is `completed`, `rollback_completed` or another."""
        status = self.found.get("UpdateStatus") or {}
        return status.get("StartedAt", ""), status.get("State", "")

    @property
    def failure(self) -> str:
        """What Swarm did when the last update failed; empty if the update has not failed."""
        return _FAILURES.get(self.update[1], "")

    @property
    def monitor_seconds(self) -> float:
        """For how long Swarm watches a new task before the update goes on, in seconds."""
        nanoseconds = (self.found["Spec"].get("UpdateConfig") or {}).get("Monitor", 5e9)
        return float(nanoseconds) / 1e9

    @property
    def published(self) -> list[int]:
        """The published ports of the service."""
        ports = (self.found.get("Endpoint") or {}).get("Ports") or ()
        return [int(port["PublishedPort"]) for port in ports if port.get("PublishedPort")]


def running_services(stack: str) -> dict[str, RunningService]:
    """Return the services of a stack; the keys are the names without the name of the stack.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    ids = docker("service", "ls", "--quiet", "--filter", f"label=com.docker.stack.namespace={stack}").split()
    found = inspect("service", *ids)
    return {
        each["Spec"]["Name"].removeprefix(f"{stack}_"): RunningService(each["Spec"]["Name"], each) for each in found
    }
