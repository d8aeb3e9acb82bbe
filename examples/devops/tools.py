"""Tools that inspect the services of a Docker Swarm: what runs, with which image, and the last failures.

`DOCKER_HOST` is the address of the Docker API of a Swarm manager: `unix:///var/run/docker.sock` (default) or
`tcp://host:port`, without TLS. Write access to this API means root access on the manager. Therefore do not give the
socket to a server that clients can reach. Put a proxy between the server and the socket. The proxy must allow only
`GET /services` and `GET /tasks`, and only the server may be able to reach the proxy. Set `DOCKER_HOST` to the address
of the proxy. The tools of this pack send only these two requests. The proxy protects the manager against other requests
from any other code in the server.

Callers see names, images, counts, states, and the engine's error texts (shortened). They do not see the environment,
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
"""The states of an update that failed."""

# The form of Swarm's service names; none of these characters has a special meaning in a URL or in JSON.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=63)]


class Deployment(BaseModel):
    """A service and the number of its running tasks."""

    name: str
    image: str
    running: int = Field(description="Number of running tasks")
    desired: int = Field(description="Desired number of running tasks")
    update: str | None = Field(
        description='State of the last update, such as "completed", "updating" or "paused"; null: no update yet'
    )
    updated_at: datetime


class Deployments(BaseModel):
    """The services, ordered by name."""

    deployments: list[Deployment]
    complete: bool = Field(description="False: there are more services than this list contains")


class Failure(BaseModel):
    """A task that failed."""

    at: datetime
    state: str = Field(description='State such as "failed" or "rejected"; "pending" for a task that can\'t start yet')
    error: str


class ServiceStatus(Deployment):
    """A service, its health and its last failures."""

    healthy: bool = Field(
        description="True: the desired number of tasks run, and the last update was not paused or rolled back"
    )
    update_message: str | None
    failures: list[Failure] = Field(description="The last failures, the latest first; they may be old")


@tool(annotations={"readOnlyHint": True})
async def list_deployments() -> Deployments:
    """List the services of the Swarm with their images and their numbers of running tasks.

    Raises:
        ToolError: Docker does not answer, or its reply is not usable.
    """
    found = sorted(await _DOCKER.services(), key=lambda service: service.spec.name)
    deployments = [_deployment(service) for service in found[:_MOST_FOUND]]
    return Deployments(deployments=deployments, complete=len(found) <= _MOST_FOUND)


@tool(annotations={"readOnlyHint": True})
async def check_service_status(service: Name) -> ServiceStatus:
    """Check whether a service is healthy, and get the last errors of its tasks.

    Args:
        service: Full name of the service, as in the result of list_deployments.

    Raises:
        ToolError: The service does not exist, Docker does not answer, or its reply is not usable.
    """
    found = next((each for each in await _DOCKER.services(service) if each.spec.name == service), None)
    if found is None:
        raise ToolError(f"The service {service!r} does not exist; list_deployments lists the services.")
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
    """Return the text in one line, without control characters, shortened to 200 characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 2 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
