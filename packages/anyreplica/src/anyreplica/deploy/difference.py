"""The differences between the running stack and the stack that a deployment would create."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from anyreplica.deploy.running import RunningService

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


def changed_lines(before: str, after: str, counts: Mapping[str, int] | None = None) -> list[str]:
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


def dropped_settings(running: RunningService, wanted: dict[str, Any]) -> list[str]:
    """Return the protecting settings that the running service has and the new service would not have.

    A setting also counts as dropped if the new service would have a weaker value, such as SIGNING=accept in place of
    SIGNING=require.

    Args:
        running: The running service.
        wanted: The new service in the output of `docker stack config`.
    """
    before = _held(running.environment, running.secrets)
    secrets = {str(each.get("target") or each["source"]) for each in wanted.get("secrets") or ()}
    variables = (wanted.get("environment") or {}).items()
    environment = {name: "" if value is None else str(value) for name, value in variables}
    after = _held(environment, secrets)
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
    """Yield each value with its path, such as `mcp.deploy.replicas`, `3`; objects in a list get their own path."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
        for each in value:
            named = str(each.get("target") or each.get("source") or each)
            yield from _flat(each, f"{path}.{named}")
    else:
        yield path.removeprefix("services."), " ".join(map(str, value)) if isinstance(value, list) else str(value)
