"""The stack to deploy, how it differs from the running one, and the record of the last successful deployment.

The stack is stack.yml with its overlays and variables, and the secrets that it needs. The record is a Docker config in
the Swarm. It has the label of the stack, so `docker stack rm` removes it together with the stack.
"""

import base64
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from anyreplica.deploy.running import DockerCommandError, RunningService, docker, exists, inspect

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


PROTECTING = (
    "AUTH_ENABLED",
    "AUTH_TOKEN",
    "API_KEYS_FILE",
    "AUTH_JWT_ISSUER",
    "AUTH_JWT_AUDIENCE",
    "AUTH_JWT_JWKS",
    "AUTH_JWT_SCOPES",
    "LOGIN_PROVIDER",
    "LOGIN_AUDIENCE",
    "LOGIN_SCOPES",
    "SIGNING",
    "PROTECT_CUSTOM_ROUTES",
    "METRICS_TOKEN",
    "RATE_LIMIT",
    "RATE_CONCURRENT",
    "REPLICA_RATE_LIMIT",
)
"""Protecting settings: without one of them, the server accepts more callers or more calls."""
_OFF = {"0", "false", "f", "no", "n", "off"}
_STRICTEST = {"SIGNING": "require"}
"""The values without which a setting that stays set accepts more callers."""
_SECRETS_FOLDER = "/run/secrets/"


def describe_changes(before: str, after: str, counts: Mapping[str, int] | None = None) -> list[str]:
    """Return the differences between two stacks, one line each, with the values before and after.

    Args:
        before: Output of `docker stack config` for the running stack.
        after: Output of `docker stack config` for the new stack.
        counts: The present number of tasks of each service, if it can differ from that in `before`.
    """
    old, new = dict(_flat(yaml.safe_load(before))), dict(_flat(yaml.safe_load(after)))
    running = {f"{name}.deploy.replicas": str(count) for name, count in (counts or {}).items()}
    old |= {path: count for path, count in running.items() if path in old}
    return [
        f"{path}: {old.get(path) or '(none)'} → {new.get(path) or '(none)'}"
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]


def dropped_settings(running: RunningService, new: dict[str, Any]) -> list[str]:
    """Return the protecting settings that the running service has and the new service would not have.

    A setting also counts as dropped if the new service would have a weaker value, such as SIGNING=accept in place of
    SIGNING=require.

    Args:
        running: The running service.
        new: The new service in the output of `docker stack config`.
    """
    before = _held(running.environment, running.secrets)
    files = {str(each.get("target") or each["source"]) for each in new.get("secrets") or ()}
    variables = (new.get("environment") or {}).items()
    environment = {name: "" if value is None else str(value) for name, value in variables}
    after = _held(environment, files)
    weaker = {name for name, value in _STRICTEST.items() if before.get(name) == value != after.get(name)}
    return [name for name in PROTECTING if name in before.keys() - after.keys() or name in weaker]


def _held(environment: Mapping[str, str], secrets: Iterable[str]) -> dict[str, str]:
    """Return the protecting settings that are set, each with its value in lower case.

    As for the server, upper and lower case in names do not matter, and a variable that is not empty comes before a
    secret with the same name. The value of a secret is unknown here: an empty text.
    """
    held = {secret.removeprefix(_SECRETS_FOLDER).upper(): "" for secret in secrets}
    held |= {name.upper(): value.lower() for name, value in environment.items() if value}
    return {name: held[name] for name in PROTECTING if name in held and held[name] not in _OFF}


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each path and its value, such as `mcp.deploy.replicas` and `3`. Each object in a list has its own path."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
        for each in value:
            named = str(each.get("target") or each.get("source") or each)
            yield from _flat(each, f"{path}.{named}")
    else:
        yield path.removeprefix("services."), " ".join(map(str, value)) if isinstance(value, list) else str(value)


_LABEL = "anyreplica.deployed"
_IMAGE = "anyreplica.image"
_EARLIER_IMAGE = "anyreplica.earlier-image"
_FAILED = "anyreplica.failed"


@dataclass(frozen=True)
class DeploymentRecord:
    """The record of the last successful deployment."""

    text: str
    """Output of `docker stack config`."""
    image: str
    """The image of the replicas, with the digest if it comes from a registry."""
    earlier_image: str | None = None
    """The image that the replicas had before; None if they have had no other image."""
    failed: bool = False
    """Whether a later deployment has failed."""


def recall_deployment(stack: str) -> DeploymentRecord | None:
    """Return the record; None if no deployment was successful.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    found = sorted(inspect("config", *_record_ids(stack)), key=lambda each: str(each["UpdatedAt"]))
    if not found:
        return None
    spec = found[-1]["Spec"]
    text, labels = base64.b64decode(spec["Data"]).decode(), spec.get("Labels") or {}
    # A record of an earlier version of anyreplica has no label with the image.
    image = labels.get(_IMAGE) or str(yaml.safe_load(text)["services"]["mcp"]["image"])
    return DeploymentRecord(text, image, labels.get(_EARLIER_IMAGE), labels.get(_FAILED) == "true")


def remember_deployment(stack: str, record: DeploymentRecord) -> None:
    """Store a record in place of the last one.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    if recall_deployment(stack) == record:
        return
    old = _record_ids(stack)
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


def _record_ids(stack: str) -> list[str]:
    return docker("config", "ls", "--quiet", "--filter", f"label={_LABEL}={stack}").split()
