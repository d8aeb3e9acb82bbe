"""The record of the last successful deployment, stored as a Docker config in the Swarm.

The config has the label of the stack, so `docker stack rm` removes it together with the stack.
"""

import base64
import zlib
from dataclasses import dataclass, replace

import yaml

from anyreplica.deploy.docker import docker, inspect

_LABEL = "anyreplica.deployed"
_IMAGE = "anyreplica.image"
_EARLIER_IMAGE = "anyreplica.earlier-image"
_FAILED = "anyreplica.failed"


@dataclass(frozen=True)
class Deployed:
    """The record of the last successful deployment."""

    text: str
    """Output of `docker stack config`."""
    image: str
    """The image of the replicas, with the digest if it comes from a registry."""
    earlier_image: str | None = None
    """The image that the replicas had before; None if they have had no other image."""
    failed: bool = False
    """Whether a later deployment has failed."""


def recall_deployment(stack: str) -> Deployed | None:
    """Return the record; None if no deployment was successful.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    found = sorted(inspect("config", *_ids(stack)), key=lambda each: str(each["UpdatedAt"]))
    if not found:
        return None
    spec = found[-1]["Spec"]
    text, labels = base64.b64decode(spec["Data"]).decode(), spec.get("Labels") or {}
    # A record of an earlier version of anyreplica has no label with the image.
    image = labels.get(_IMAGE) or str(yaml.safe_load(text)["services"]["mcp"]["image"])
    return Deployed(text, image, labels.get(_EARLIER_IMAGE), labels.get(_FAILED) == "true")


def remember_deployment(stack: str, record: Deployed) -> None:
    """Store a record in place of the last one.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    if recall_deployment(stack) == record:
        return
    old = _ids(stack)
    name = f"{stack}_deployed_{zlib.crc32(record.text.encode()):08x}"
    labels = {"com.docker.stack.namespace": stack, _LABEL: stack, _IMAGE: record.image}
    if record.earlier_image is not None:
        labels[_EARLIER_IMAGE] = record.earlier_image
    if record.failed:
        labels[_FAILED] = "true"
    if old:  # Remove first: a config with the same text would have the same name.
        docker("config", "rm", *old)
    options = [f"--label={label}={value}" for label, value in labels.items()]
    docker("config", "create", *options, name, "-", stdin=record.text)


def remember_failure(stack: str) -> None:
    """Note in the record that a later deployment has failed.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    record = recall_deployment(stack)
    if record is not None:
        remember_deployment(stack, replace(record, failed=True))


def _ids(stack: str) -> list[str]:
    return docker("config", "ls", "--quiet", "--filter", f"label={_LABEL}={stack}").split()
