"""The secrets that a stack needs, made if they are missing."""

import secrets
from collections.abc import Callable, Iterable

from deploy.docker import docker, exists


def _key() -> str:
    return secrets.token_hex(32)


def _sentinel_url() -> str:
    password = secrets.token_hex(24)
    return f"redis+sentinel://:{password}@sentinel-1,sentinel-2,sentinel-3/jobs?sentinel_password={password}"


MADE: dict[str, Callable[[], str]] = {
    "request_state_keys": _key,
    "metrics_token": _key,
    "grafana_password": lambda: secrets.token_hex(12),
    "jobs_url": lambda: f"redis://:{secrets.token_hex(24)}@redis:6379/0",
    "jobs_sentinel_url": _sentinel_url,
}
"""Secrets that can be made up, each with how."""


def make(names: Iterable[str]) -> list[str]:
    """Make those secrets that don't exist and can be made up; returns what a person must be told.

    Raises:
        DockerError: docker can't make one.
    """
    told = []
    for name in names:
        if name not in MADE or exists("secret", name):
            continue
        content = MADE[name]()
        docker("secret", "create", name, "-", stdin=content)
        told.append(f"Made the secret {name}.")
        if name == "grafana_password":
            told.append(f"Grafana's user is admin, its password {content} (shown this once).")
    return told
