"""The record of the last deployment, stored as a Docker config in the Swarm.

The config has the label of the stack, so `docker stack rm` removes it together with the stack.
"""

import base64
import zlib
from typing import Any

import yaml

from anyreplica.deploy.docker import docker, inspect

_LABEL = "anyreplica.deployed"
_EARLIER_IMAGE = "anyreplica.earlier-image"
"""Label of the record; its value is the image that the replicas had before their present one."""


def recall(stack: str) -> str | None:
    """Return the output of `docker stack config` for the last deployment; None if there was no deployment.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    spec = _newest(stack)
    return base64.b64decode(spec["Data"]).decode() if spec else None


def image(stack: str) -> str | None:
    """Return the image of the replicas in the last deployment; None if there was no deployment.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    text = recall(stack)
    return None if text is None else str(yaml.safe_load(text)["services"]["mcp"]["image"])


def earlier_image(stack: str) -> str | None:
    """Return the image that the replicas had before their present one; None if they have had no other image.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    image: str | None = (_newest(stack).get("Labels") or {}).get(_EARLIER_IMAGE)
    return image


def remember(stack: str, text: str, earlier: str | None = None) -> None:
    """Store the output of `docker stack config` in place of the output of the last deployment.

    Args:
        stack: Name of the stack.
        text: The output.
        earlier: The image that the replicas had before this deployment, if it has changed their image.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    if earlier is None:
        if recall(stack) == text:
            return
        earlier = earlier_image(stack)
    old = _ids(stack)
    name = f"{stack}_deployed_{zlib.crc32(text.encode()):08x}"
    labels = [f"--label=com.docker.stack.namespace={stack}", f"--label={_LABEL}={stack}"]
    if earlier is not None:
        labels.append(f"--label={_EARLIER_IMAGE}={earlier}")
    if old:  # Remove first: a config with the same text would have the same name.
        docker("config", "rm", *old)
    docker("config", "create", *labels, name, "-", stdin=text)


def _newest(stack: str) -> dict[str, Any]:
    """Return the specification of the newest record. It is empty if there is no record."""
    found = sorted(inspect("config", *_ids(stack)), key=lambda each: str(each["UpdatedAt"]))
    spec: dict[str, Any] = found[-1]["Spec"] if found else {}
    return spec


def _ids(stack: str) -> list[str]:
    return docker("config", "ls", "--quiet", "--filter", f"label={_LABEL}={stack}").split()
