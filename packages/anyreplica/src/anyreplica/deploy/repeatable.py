"""The names of the tools that the edge proxy may safely call twice."""

import os

from anyreplica.deploy.docker import DockerCommandError, docker

EDGE = "deploy/edge.yml"

_SECONDS = 600
"""Time limit of the container that lists the tools, in seconds. Docker may have to pull the image first."""


def tools(image: str, components: str) -> str:
    """Return the value for REPEAT_TOOLS: the tools that the operator names, and those that the image marks as safe.

    Args:
        image: The image.
        components: The value of MCP_COMPONENTS. If it is empty, the image uses its default.
    """
    named = os.environ.get("REPEAT_TOOLS", "").split()
    given = ["--env", f"MCP_COMPONENTS={components}"] if components else []
    command = ["run", "--rm", "--network", "none", *given, image, "python", "-m", "server", "check", "--repeatable"]
    try:
        named += docker(*command, seconds=_SECONDS).split()
    except DockerCommandError as error:
        print(f"The edge proxy retries only the tools in REPEAT_TOOLS: can't list the tools of {image}: {error}")
    return " ".join(sorted(set(named))) or "-"
