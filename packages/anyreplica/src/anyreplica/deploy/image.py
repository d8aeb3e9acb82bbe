"""The image of a deployment: its tag, and which nodes may lack their copy of an image that is in no registry.

Swarm replaces a service's containers only when the name of its image changes. An image that was built again under the
same name would change nothing. Therefore an image without a registry gets a tag derived from its content, such as
`mcp-swarm:3f2a9c1d0b7e`. For an image in a registry, docker itself looks up the digest when it deploys.

`python -m anyreplica.deploy.image NAME` sets the tag and prints the name with the tag. `make image` calls it.
"""

import re
import sys
from collections.abc import Collection

from anyreplica.deploy.running import DockerCommandError, DockerTimeoutError, SwarmTask, docker, inspect

_CONTENT = "[0-9a-f]{12}"


def by_content(image: str) -> str | None:
    """Tag a local image by its content and return the name with the tag; None if the image is not local.

    An image is local if its name does not start with a registry and this engine has the image. If the name contains a
    slash, the image must also have no digest, because an image that was pushed or pulled has a digest.
    `app:latest` becomes `app:3f2a9c1d0b7e`, `app:1.2` becomes `app:1.2-3f2a9c1d0b7e`.

    Raises:
        DockerCommandError: The tag can't be set, or Docker does not answer.
    """
    if "@" in image or _has_registry(image):
        return None
    try:
        (found,) = inspect("image", image)
    except DockerTimeoutError:
        raise
    except DockerCommandError:
        return None
    if found.get("RepoDigests") and "/" in image:  # Newer engines give digests to local images, too.
        return None
    if re.search(f"[:-]{_CONTENT}$", image):
        return image
    name, _, tag = image.partition(":")
    prefix = f"{name}:" if tag in ("", "latest") else f"{name}:{tag}-"
    # Another engine may have set the tag. If the two engines store images differently, the image has another id here.
    for known in found.get("RepoTags") or ():
        if re.fullmatch(re.escape(prefix) + _CONTENT, known):
            return str(known)
    tagged = prefix + str(found["Id"]).removeprefix("sha256:")[:12]
    docker("image", "tag", image, tagged)
    return tagged


def name_of(image: str) -> str:
    """Return the name of an image without its tag and its digest."""
    name = image.partition("@")[0]
    first, colon, tag = name.rpartition(":")
    return first if colon and "/" not in tag else name


def same(first: str, second: str) -> bool:
    """Return whether two names mean the same image. A name without a digest is the same as that name with a digest."""
    return first == second or first.partition("@")[0] == second or first == second.partition("@")[0]


def copy_warning(local: str, present: Collection[SwarmTask]) -> str:
    """Return a text that tells the operator to which nodes to copy an image. It is empty if all nodes have the image.

    The node of this program's Docker engine has the image. Another node has it if a task with this image runs there.
    Swarm has no list of the images of other nodes. A drained node needs no image.

    Args:
        local: The image. The node that this program talks to has it.
        present: The tasks of the stack.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    having = {task.node for task in present if task.state == "running" and same(task.image, local)}
    form = "{{.ID}} {{.Self}} {{.Availability}} {{.Hostname}}"
    nodes = [line.split() for line in docker("node", "ls", "--format", form).splitlines()]
    unknown = [
        name
        for identity, here, availability, name in nodes
        if here != "true" and availability != "Drain" and identity not in having
    ]
    if not unknown:
        return ""
    return (
        f"The image {local} is not in a registry, and these nodes may not have it: {', '.join(unknown)}. Copy it to "
        "each of them that does not have it:\n"
        f"  docker save {local} | ssh NODE docker load"
    )


def _has_registry(image: str) -> bool:
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


if __name__ == "__main__":
    try:
        print(by_content(sys.argv[1]) or sys.argv[1])
    except DockerCommandError as error:
        sys.exit(str(error))
