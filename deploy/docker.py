"""The docker command."""

import json
import os
import subprocess
from typing import Any


class DockerError(Exception):
    """docker has failed; the text is what it said."""


def docker(*arguments: str, stdin: str | None = None, **environment: str) -> str:
    """Run docker with arguments; returns what it printed, without the last line's end.

    Args:
        stdin: what docker reads from its standard input.
        environment: variables on top of this process's own.

    Raises:
        DockerError: the exit code wasn't 0, or there is no docker.
    """
    try:
        done = subprocess.run(
            ["docker", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **environment},
        )
    except FileNotFoundError:
        raise DockerError("There is no docker command on PATH.") from None
    if done.returncode:
        raise DockerError(done.stderr.strip() or f"docker {arguments[0]} failed with exit code {done.returncode}.")
    return done.stdout.rstrip("\n")


def rows(*arguments: str) -> list[dict[str, Any]]:
    """What a docker command lists, each line as an object.

    Raises:
        DockerError: as `docker`.
    """
    return [json.loads(line) for line in docker(*arguments, "--format", "{{json .}}").splitlines()]


def inspect(kind: str, *names: str) -> list[dict[str, Any]]:
    """What docker knows of services, tasks, images, configs or secrets.

    Raises:
        DockerError: as `docker`; there is none of such a name, for example.
    """
    found: list[dict[str, Any]] = json.loads(docker(kind, "inspect", *names)) if names else []
    return found


def exists(kind: str, name: str) -> bool:
    """Whether there is a secret or an image of that name."""
    try:
        docker(kind, "inspect", name)
    except DockerError:
        return False
    return True
