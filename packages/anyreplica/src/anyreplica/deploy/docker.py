"""Functions that run the docker command."""

import json
import os
import subprocess
from typing import Any


class DockerCommandError(Exception):
    """The docker command failed; the text is its error output."""


def docker(*arguments: str, stdin: str | None = None, **environment: str) -> str:
    """Run docker and return its output without the final newline.

    Args:
        arguments: Arguments of docker.
        stdin: Text for docker's standard input.
        environment: Environment variables, in addition to those of this process.

    Raises:
        DockerCommandError: The exit code was not 0, or the docker command is missing.
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
    """Return whether a secret or an image with this name exists."""
    try:
        docker(kind, "inspect", name)
    except DockerCommandError:
        return False
    return True
