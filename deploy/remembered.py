"""What a stack was deployed with, kept as a config of the Swarm.

`docker stack rm` removes it with the stack, whose label it has.
"""

import base64
import zlib

from deploy.docker import docker, inspect

_LABEL = "mcp-swarm.deployed"


def recall(stack: str) -> str | None:
    """What `docker stack config` printed when the stack was last deployed; None if it never was.

    Raises:
        DockerError: docker doesn't reach a Swarm's manager.
    """
    found = sorted(inspect("config", *_ids(stack)), key=lambda each: str(each["UpdatedAt"]))
    return base64.b64decode(found[-1]["Spec"]["Data"]).decode() if found else None


def remember(stack: str, text: str) -> None:
    """Keep this text in place of the last one.

    Raises:
        DockerError: docker doesn't reach a Swarm's manager.
    """
    if recall(stack) == text:
        return
    old = _ids(stack)
    name = f"{stack}_deployed_{zlib.crc32(text.encode()):08x}"
    labels = [f"--label=com.docker.stack.namespace={stack}", f"--label={_LABEL}={stack}"]
    if old:  # first, as the same text may have been kept before
        docker("config", "rm", *old)
    docker("config", "create", *labels, name, "-", stdin=text)


def _ids(stack: str) -> list[str]:
    return docker("config", "ls", "--quiet", "--filter", f"label={_LABEL}={stack}").split()
