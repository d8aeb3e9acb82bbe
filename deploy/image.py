"""A tag that names the content of an image.

Swarm replaces a service's containers when its image has another name. An image that was built again under the same
name would change nothing, so an image without a registry gets a tag of its content: `mcp-swarm:3f2a9c1d0b7e`. For an
image in a registry docker itself finds the digest when it deploys.

`python -m deploy.image NAME` sets that tag and prints the image's name with it: `make image` does so.
"""

import re
import sys

from deploy.docker import DockerError, docker, inspect

_CONTENT = "[0-9a-f]{12}"


def by_content(image: str) -> str | None:
    """Give an image of this engine a tag of its content, and return its name with it; None if it is in a registry.

    An image counts as local if its name has no registry in front, this engine has it, and it was never pushed or
    pulled. `app:latest` becomes `app:3f2a9c1d0b7e`, `app:1.2` becomes `app:1.2-3f2a9c1d0b7e`.

    Raises:
        DockerError: the tag can't be set.
    """
    if "@" in image or _has_registry(image):
        return None
    try:
        (found,) = inspect("image", image)
    except DockerError:
        return None
    if found.get("RepoDigests") and "/" in image:  # newer engines give local images digests, too
        return None
    if re.search(f"[:-]{_CONTENT}$", image):
        return image
    name, _, tag = image.partition(":")
    prefix = f"{name}:" if tag in ("", "latest") else f"{name}:{tag}-"
    # Another engine may have set the tag. The image has another id here if the two engines store images differently.
    for known in found.get("RepoTags") or ():
        if re.fullmatch(re.escape(prefix) + _CONTENT, known):
            return str(known)
    tagged = prefix + str(found["Id"]).removeprefix("sha256:")[:12]
    docker("image", "tag", image, tagged)
    return tagged


def _has_registry(image: str) -> bool:
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


if __name__ == "__main__":
    print(by_content(sys.argv[1]) or sys.argv[1])
