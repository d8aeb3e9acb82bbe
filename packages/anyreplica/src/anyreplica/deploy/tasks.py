"""The tasks of a stack: the containers that Swarm started or tried to start."""

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from anyreplica.deploy.docker import DockerCommandError, DockerTimeoutError, docker, inspect

_LOG_SECONDS = 10
_LOG_LINES = 20


@dataclass(frozen=True)
class SwarmTask:
    """One task of a service."""

    id: str
    service: str
    """Id of the service."""
    state: str
    """The actual state: `running`, `failed`, `rejected` or another."""
    wanted: str
    """The desired state."""
    error: str
    """The reason why the task is not in the desired state; empty if there was no error."""
    node: str
    """Id of the node."""
    created: str
    """Time of creation, as ISO 8601."""
    image: str = ""
    """The image, with the digest if it comes from a registry."""


def tasks(stack: str) -> list[SwarmTask]:
    """Return all tasks of a stack, including tasks that have ended. The newest task is the last.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    try:
        ids = docker("stack", "ps", "--quiet", "--no-trunc", stack).split()
    except DockerCommandError as error:
        if "nothing found" in str(error).lower():
            return []
        raise
    return sorted((_task(each) for each in _inspected(ids)), key=lambda task: task.created)


def why(task: SwarmTask) -> list[str]:
    """Return lines that explain why a task failed: the reason, the node and its last log lines."""
    try:
        node = inspect("node", task.node)[0]["Description"]["Hostname"] if task.node else "no node"
    except DockerCommandError:
        node = task.node
    lines = [f"Reason: {task.error} (on {node})"]
    logged = last_lines(task)
    if logged:
        lines += ["Last log lines:", *(f"  {line}" for line in logged)]
    return lines


def last_lines(task: SwarmTask) -> list[str]:
    """Return the last 20 log lines of a task; wait at most 10 s for its node."""
    command = ["docker", "service", "logs", "--raw", "--tail", str(_LOG_LINES), task.id]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=_LOG_SECONDS
        )
    except subprocess.TimeoutExpired as late:  # Docker waits forever for the logs of a lost node.
        return (late.output or b"").decode(errors="replace").splitlines()
    return done.stdout.splitlines() if done.returncode == 0 else []


def _inspected(ids: list[str]) -> list[dict[str, Any]]:
    """Return the details of tasks, without the tasks that Swarm has removed since the listing."""
    if not ids:
        return []
    try:
        found: list[dict[str, Any]] = json.loads(docker("inspect", "--type", "task", *ids))
    except DockerTimeoutError:
        raise
    except DockerCommandError:
        return [] if len(ids) == 1 else [each for identity in ids for each in _inspected([identity])]
    return found


def _task(found: dict[str, Any]) -> SwarmTask:
    status = found.get("Status") or {}
    return SwarmTask(
        id=found["ID"],
        service=found["ServiceID"],
        state=status.get("State", ""),
        wanted=found.get("DesiredState", ""),
        error=status.get("Err", ""),
        node=found.get("NodeID", ""),
        created=found["CreatedAt"],
        image=((found.get("Spec") or {}).get("ContainerSpec") or {}).get("Image", ""),
    )
