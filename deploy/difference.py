"""What a deployment changes."""

from collections.abc import Iterator
from typing import Any

import yaml

from deploy.running import Service

PROTECTING = (
    "AUTH_ENABLED",
    "AUTH_TOKEN",
    "API_KEYS_FILE",
    "AUTH_JWT_ISSUER",
    "AUTH_JWT_AUDIENCE",
    "AUTH_JWT_JWKS",
    "AUTH_JWT_SCOPES",
    "SIGNING",
    "METRICS_TOKEN",
    "RATE_LIMIT",
    "RATE_CONCURRENT",
    "REPLICA_RATE_LIMIT",
)
"""Settings without which a server is open to more callers, or to more calls."""
_OFF = {"", "0", "false", "no", "off"}


def lines(before: str, after: str) -> list[str]:
    """The differences between two stacks, each as a line with the value before and after.

    Args:
        before: what `docker stack config` printed for the stack that runs.
        after: the same for the stack that is to be deployed.
    """
    old, new = dict(_flat(yaml.safe_load(before))), dict(_flat(yaml.safe_load(after)))
    return [
        f"{path}: {old.get(path) or '(none)'} → {new.get(path) or '(none)'}"
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]


def dropped(running: Service, wanted: dict[str, Any]) -> list[str]:
    """The protecting settings that the running service has, and that the service would no longer have.

    Args:
        wanted: the service in what `docker stack config` prints.
    """
    before = _held(running.environment, running.secrets)
    secrets = {str(each.get("target") or each["source"]) for each in wanted.get("secrets") or ()}
    environment = {name: str(value) for name, value in (wanted.get("environment") or {}).items()}
    after = _held(environment, secrets)
    return [name for name in PROTECTING if name in before - after]


def _held(environment: dict[str, str], secrets: set[str]) -> set[str]:
    """A setting is an environment variable, or a secret of its name."""
    files = {secret.upper() for secret in secrets}
    return {name for name in PROTECTING if name in files or environment.get(name, "").lower() not in _OFF}


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each value with its path: `services.mcp.deploy.replicas`, `3`. Parts of a list have a path of their own."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
        for each in value:
            named = str(each.get("target") or each.get("source") or each)
            yield from _flat(each, f"{path}.{named}")
    else:
        yield path.removeprefix("services."), " ".join(map(str, value)) if isinstance(value, list) else str(value)
