"""The record of the last deployment, stored as a Docker config in the Swarm.

The config has the label of the stack, so `docker stack rm` removes it together with the stack.
"""

import base64
import zlib

from deploy.docker import docker, inspect

_LABEL = "anyreplica.deployed"


def recall(stack: str) -> str | None:
    """Return the output of `docker stack config` for the last deployment; None if there was no deployment.

    Raises:
        DockerError: Docker can't reach a manager of a Swarm.
    """
    found = sorted(inspect("config", *_ids(stack)), key=lambda each: str(each["UpdatedAt"]))
    return base64.b64decode(found[-1]["Spec"]["Data"]).decode() if found else None


def remember(stack: str, text: str) -> None:
    """Store the output of `docker stack config` in place of the output of the last deployment.

    Raises:
        DockerError: Docker can't reach a manager of a Swarm.
    """
    if recall(stack) == text:
        return
    old = _ids(stack)
    name = f"{stack}_deployed_{zlib.crc32(text.encode()):08x}"
    labels = [f"--label=com.docker.stack.namespace={stack}", f"--label={_LABEL}={stack}"]
    if old:  # Remove first: a config with the same text would have the same name.
        docker("config", "rm", *old)
    docker("config", "create", *labels, name, "-", stdin=text)


def _ids(stack: str) -> list[str]:
    return docker("config", "ls", "--quiet", "--filter", f"label={_LABEL}={stack}").split()
