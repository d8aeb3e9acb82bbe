"""The stack to deploy: stack.yml with its overlays and variables, and the secrets that it needs."""

import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from anyreplica.deploy.docker import DockerCommandError, docker, exists

EDGE = "deploy/edge.yml"
"""The overlay with the edge proxy."""

_LIST_SECONDS = 600
"""Time limit of the container that lists the tools, in seconds. Docker may have to pull the image first."""


@dataclass(frozen=True)
class Wanted:
    """The stack that results from stack.yml, the overlays and the variables."""

    files: tuple[str, ...]
    variables: Mapping[str, str]
    """Variables for the files, in addition to the environment of this process."""
    text: str
    """Output of `docker stack config`: all files merged, with the values of the variables."""

    @property
    def services(self) -> dict[str, dict[str, Any]]:
        """The services by name."""
        found: dict[str, dict[str, Any]] = yaml.safe_load(self.text)["services"]
        return found

    @property
    def external_secrets(self) -> list[str]:
        """The names of the secrets that must exist."""
        found = yaml.safe_load(self.text).get("secrets") or {}
        return [each.get("name", name) for name, each in found.items() if each.get("external")]

    def deploy(self, stack: str, *flags: str) -> list[str]:
        """Return the docker arguments that deploy the stack."""
        files = [part for file in self.files for part in ("--compose-file", file)]
        return ["stack", "deploy", *flags, *files, stack]


def wanted(overlays: list[str], **variables: str) -> Wanted:
    """Read stack.yml and the overlays.

    Raises:
        DockerCommandError: A file is missing or wrong; the text names it.
    """
    variables |= {
        "HAPROXY_CFG": checksum(Path("deploy/haproxy.cfg")),
        "DOCKER_API_CFG": checksum(Path("deploy/docker-api.cfg")),
        "REDIS_CFG": checksum(Path("deploy/redis/server.sh")),
        "SENTINEL_CFG": checksum(Path("deploy/redis/sentinel.sh")),
        "OBSERVABILITY_CFG": checksum(*(each for each in Path("deploy/observability").rglob("*") if each.is_file())),
    }
    files = ("stack.yml", *overlays)
    command = ("stack", "config", *(part for file in files for part in ("--compose-file", file)))
    text = docker(*command, environment=variables)
    return Wanted(files, variables, text)


def checksum(*files: Path) -> str:
    """Return a checksum of the files' content for the name of a config, because a config can't be changed."""
    number = 0
    for file in sorted(filter(Path.is_file, files), key=os.fspath):
        number = zlib.crc32(file.read_bytes(), number)
    return str(number)


def repeat_tools(image: str, components: str) -> str:
    """Return the value for REPEAT_TOOLS: the names of the tools that the edge proxy may safely call twice.

    These are the tools that the operator names, and those that the image marks as safe.

    Args:
        image: The image.
        components: The value of MCP_COMPONENTS. If it is empty, the image uses its default.
    """
    named = os.environ.get("REPEAT_TOOLS", "").split()
    given = ["--env", f"MCP_COMPONENTS={components}"] if components else []
    command = ["run", "--rm", "--network", "none", *given, image, "python", "-m", "server", "check", "--repeatable"]
    try:
        named += docker(*command, seconds=_LIST_SECONDS).split()
    except DockerCommandError as error:
        print(f"The edge proxy retries only the tools in REPEAT_TOOLS: can't list the tools of {image}: {error}")
    return " ".join(sorted(set(named))) or "-"


def _key() -> str:
    return secrets.token_hex(32)


def _sentinel_url() -> str:
    password = secrets.token_hex(24)
    return f"redis+sentinel://:{password}@sentinel-1,sentinel-2,sentinel-3/jobs?sentinel_password={password}"


MADE_SECRETS: dict[str, Callable[[], str]] = {
    "request_state_keys": _key,
    "metrics_token": _key,
    "grafana_password": lambda: secrets.token_hex(12),
    "jobs_url": lambda: f"redis://:{secrets.token_hex(24)}@redis:6379/0",
    "jobs_sentinel_url": _sentinel_url,
}
"""The secrets that can be generated, each with its generator."""


def make_secrets(names: Iterable[str]) -> list[str]:
    """Create the missing secrets that can be generated. Return the lines that the operator reads about them.

    Raises:
        DockerCommandError: Docker can't create a secret.
    """
    lines = []
    for name in names:
        if name not in MADE_SECRETS or exists("secret", name):
            continue
        content = MADE_SECRETS[name]()
        docker("secret", "create", name, "-", stdin=content)
        lines.append(f"Created the secret {name}.")
        if name == "grafana_password":
            lines.append(f"Grafana's user is admin, its password {content}. Save the password: it is shown only now.")
    return lines
