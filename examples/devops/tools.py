"""Services of a Docker Swarm for agents to look at: what runs, in which version, and what failed last.

`DOCKER_HOST` is where Docker's API of a Swarm manager is: `unix:///var/run/docker.sock` (default) or
`tcp://host:port`, without TLS. Whoever can write to that API is root on the manager, so don't hand its socket to a
server that callers reach: put a proxy in between that passes `GET /services` and `GET /tasks` and nothing else, on a
network of the two alone, and name the proxy. These tools send nothing else; the proxy is there for whatever isn't
these tools.

Callers see names, images, counts, states, and errors as the engine words them, shortened; not the environment,
labels, commands, secrets and mounts of services.
"""

from datetime import datetime
from typing import Annotated

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from pydantic import BaseModel, Field

from examples.devops._docker import Docker, Service, Task, docker_host

_DOCKER = Docker(docker_host())
_MOST_FOUND = 500
_MOST_FAILURES = 5
_LONGEST = 200
_STOPPED = ("paused", "rollback_started", "rollback_paused", "rollback_completed")
"""How an update fares that wasn't well."""

# As Swarm names services; nothing of it means anything in a URL or in JSON.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=63)]


class Deployment(BaseModel):
    """A service, and how many of its tasks run."""

    name: str
    image: str
    running: int = Field(description="Tasks that run")
    desired: int = Field(description="Tasks that should")
    update: str | None = Field(description='The last update, as in "completed", "updating", "paused"; null: none yet')
    updated_at: datetime


class Deployments(BaseModel):
    """Services in order of name."""

    deployments: list[Deployment]
    complete: bool = Field(description="False: there are more")


class Failure(BaseModel):
    """What became of a task that didn't last."""

    at: datetime
    state: str = Field(description='As in "failed" or "rejected"; of one that still waits, "pending"')
    error: str


class ServiceStatus(Deployment):
    """A service, whether all is well with it, and what wasn't."""

    healthy: bool = Field(description="As many tasks run as should, and no update was stopped or taken back")
    update_message: str | None
    failures: list[Failure] = Field(description="The last ones, latest first; they may be long past")


@tool(annotations={"readOnlyHint": True})
async def list_deployments() -> Deployments:
    """List the services that are deployed, with their images and how many of their tasks run.

    Raises:
        ToolError: Docker doesn't tell.
    """
    found = sorted(await _DOCKER.services(), key=lambda service: service.spec.name)
    deployments = [_deployment(service) for service in found[:_MOST_FOUND]]
    return Deployments(deployments=deployments, complete=len(found) <= _MOST_FOUND)


@tool(annotations={"readOnlyHint": True})
async def check_service_status(service: Name) -> ServiceStatus:
    """Tell whether a service runs as it should, and the last errors of its tasks.

    Args:
        service: Its whole name, as list_deployments has it.

    Raises:
        ToolError: there is no such service, or Docker doesn't tell.
    """
    found = next((each for each in await _DOCKER.services(service) if each.spec.name == service), None)
    if found is None:
        raise ToolError(f"there is no service {service!r}")
    about, update = _deployment(found), found.update_status
    failed = [task for task in await _DOCKER.tasks(found.id) if task.status.err]
    failed.sort(key=lambda task: task.status.timestamp, reverse=True)
    return ServiceStatus(
        **dict(about),
        healthy=about.running >= about.desired and about.update not in _STOPPED,
        update_message=_short(update.message) if update and update.message else None,
        failures=[_failure(task) for task in failed[:_MOST_FAILURES]],
    )


def _deployment(service: Service) -> Deployment:
    container, update, counts = service.spec.task_template.container_spec, service.update_status, service.service_status
    return Deployment(
        name=_short(service.spec.name),
        image=_short(container.image.partition("@")[0]) if container else "",
        running=counts.running_tasks,
        desired=counts.desired_tasks,
        update=_short(update.state) if update and update.state else None,
        updated_at=service.updated_at,
    )


def _failure(task: Task) -> Failure:
    status = task.status
    return Failure(at=status.timestamp, state=_short(status.state), error=_short(status.err))


def _short(text: str) -> str:
    """One line of it, without control characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 2 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
