"""The creation of missing secrets that the stack needs."""

import secrets
from collections.abc import Callable, Iterable

from anyreplica.deploy.docker import docker, exists


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
"""The secrets that can be generated, each with its generator."""


def make(names: Iterable[str]) -> list[str]:
    """Create the secrets that are missing and can be generated, and return lines for the operator.

    Raises:
        DockerCommandError: Docker can't create a secret.
    """
    lines = []
    for name in names:
        if name not in MADE or exists("secret", name):
            continue
        content = MADE[name]()
        docker("secret", "create", name, "-", stdin=content)
        lines.append(f"Created the secret {name}.")
        if name == "grafana_password":
            lines.append(f"Grafana's user is admin, its password {content}. Save the password: it is shown only now.")
    return lines
