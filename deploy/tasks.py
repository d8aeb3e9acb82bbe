"""The tasks of a stack: the containers that Swarm started or tried to start."""

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from deploy.docker import DockerError, docker, inspect

_LOG_SECONDS = 10
_LOG_LINES = 20


@dataclass(frozen=True)
class Task:
    """One container of a service, as Swarm knows it."""

    id: str
    service: str
    """The service's id."""
    state: str
    """`running`, `failed`, `rejected` and others."""
    wanted: str
    """The state that Swarm wants it to have."""
    error: str
    """Why it isn't in that state; empty if nothing went wrong."""
    node: str
    """The node's id."""
    created: str


def tasks(stack: str) -> list[Task]:
    """All tasks that Swarm remembers of a stack, the newest last.

    Raises:
        DockerError: docker doesn't reach a Swarm's manager.
    """
    try:
        ids = docker("stack", "ps", "--quiet", "--no-trunc", stack).split()
    except DockerError as error:
        if "nothing found" in str(error).lower():
            return []
        raise
    return sorted((_task(each) for each in _inspected(ids)), key=lambda task: task.created)


def why(task: Task) -> list[str]:
    """Why a task failed, for a person to read: the reason, the node, and the last lines that it logged."""
    try:
        node = inspect("node", task.node)[0]["Description"]["Hostname"] if task.node else "no node"
    except DockerError:
        node = task.node
    told = [f"Reason: {task.error} (on {node})"]
    logged = last_lines(task)
    if logged:
        told += ["The last lines that it logged:", *(f"  {line}" for line in logged)]
    return told


def last_lines(task: Task) -> list[str]:
    """The last lines that a task logged; none if its node doesn't answer soon."""
    command = ["docker", "service", "logs", "--raw", "--tail", str(_LOG_LINES), task.id]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=_LOG_SECONDS
        )
    except subprocess.TimeoutExpired as late:  # docker waits for a node that is lost
        return (late.output or b"").decode(errors="replace").splitlines()
    return done.stdout.splitlines() if done.returncode == 0 else []


def _inspected(ids: list[str]) -> list[dict[str, Any]]:
    """What Swarm knows of tasks; those that it has forgotten meanwhile are left out."""
    if not ids:
        return []
    try:
        found: list[dict[str, Any]] = json.loads(docker("inspect", "--type", "task", *ids))
    except DockerError:
        return [] if len(ids) == 1 else [each for identity in ids for each in _inspected([identity])]
    return found


def _task(found: dict[str, Any]) -> Task:
    status = found.get("Status") or {}
    return Task(
        id=found["ID"],
        service=found["ServiceID"],
        state=status.get("State", ""),
        wanted=found.get("DesiredState", ""),
        error=status.get("Err", ""),
        node=found.get("NodeID", ""),
        created=found["CreatedAt"],
    )
