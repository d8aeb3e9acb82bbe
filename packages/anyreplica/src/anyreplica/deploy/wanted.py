"""The stack to deploy: stack.yml with its overlays and variables."""

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from anyreplica.deploy.docker import docker


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
