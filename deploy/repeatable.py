"""The tools that the edge proxy may call twice."""

import os

from deploy.docker import DockerError, docker

EDGE = "deploy/edge.yml"


def tools(image: str) -> str:
    """What REPEAT_TOOLS is to be: the operator's names, and those of the image's tools whose hints allow it."""
    named = os.environ.get("REPEAT_TOOLS", "").split()
    components = os.environ.get("MCP_COMPONENTS")
    given = ["--env", f"MCP_COMPONENTS={components}"] if components else []
    command = ["run", "--rm", "--network", "none", *given, image, "python", "-m", "server", "check", "--repeatable"]
    try:
        named += docker(*command).split()
    except DockerError as error:
        print(f"The proxy repeats no calls of tools, since {image} doesn't say which it may: {error}")
    return " ".join(sorted(set(named))) or "-"
