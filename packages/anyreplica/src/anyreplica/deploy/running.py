"""The running stack: its services and tasks, and the docker commands that read them."""

import itertools
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SECONDS = 60
"""Time limit of a docker command, in seconds. Most commands need less than a second, and over SSH a few seconds."""


class DockerCommandError(Exception):
    """The docker command failed; the text is its error output."""


class DockerTimeoutError(DockerCommandError):
    """The docker command did not end within its time limit; the text names both."""


def docker(
    *arguments: str,
    stdin: str | None = None,
    seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run docker and return its output without the final newline.

    Args:
        arguments: Arguments of docker.
        stdin: Text for docker's standard input.
        seconds: Time limit, in seconds. None: 60 s.
        environment: Environment variables, in addition to those of this process.

    Raises:
        DockerCommandError: The exit code was not 0, or the docker command is missing.
        DockerTimeoutError: The command did not end within the time limit.
    """
    limit = _SECONDS if seconds is None else seconds
    try:
        done = subprocess.run(
            ["docker", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        words = itertools.takewhile(lambda word: not word.startswith("-"), arguments[:2])
        raise DockerTimeoutError(f"docker {' '.join(words)}: no answer within {limit:g} s.") from None
    except FileNotFoundError:
        raise DockerCommandError("The docker command is not installed or not on PATH.") from None
    if done.returncode:
        raise DockerCommandError(
            done.stderr.strip() or f"docker {arguments[0]} failed with exit code {done.returncode}."
        )
    return done.stdout.rstrip("\n")


def inspect(kind: str, *names: str) -> list[dict[str, Any]]:
    """Return the details of services, tasks, images, configs or secrets.

    Raises:
        DockerCommandError: As for `docker`; for example if a name does not exist.
    """
    found: list[dict[str, Any]] = json.loads(docker(kind, "inspect", *names)) if names else []
    return found


def exists(kind: str, name: str) -> bool:
    """Return whether a secret or an image with this name exists.

    Raises:
        DockerTimeoutError: Docker does not answer.
    """
    try:
        docker(kind, "inspect", name)
    except DockerTimeoutError:
        raise
    except DockerCommandError:
        return False
    return True


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


_ERRORS = 3
_ID = re.compile(r"\b(?=[a-z]*[0-9])[0-9a-z]{12,}\b")
"""An id of Docker inside an error, such as that of a task."""
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


def newest_of_each_error(found: list[SwarmTask]) -> list[SwarmTask]:
    """Return the newest task of each error of each service, at most three tasks, the newest last.

    The newest task alone may hide the cause: if all replicas of a node crash, Swarm may reject the next task there
    because the network is not ready. Errors that differ only in an id are the same error.

    Args:
        found: Tasks; the newest is the last.
    """
    newest = {(task.service, _ID.sub("", task.error)): task for task in found if task.error}
    return sorted(newest.values(), key=lambda task: task.created)[-_ERRORS:]


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
