"""Functions that run the docker command."""

import itertools
import json
import os
import subprocess
from collections.abc import Mapping
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
