"""The paths that a replica serves, and the prefix at which it serves them."""

import re

from starlette.types import Scope

from anyreplica.settings.paths import PathSettings

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def mcp_paths(settings: PathSettings) -> frozenset[str]:
    """Return the paths of the MCP endpoint: many clients add a slash."""
    return frozenset({settings.mcp_path, f"{settings.mcp_path}/"})


def quiet_paths(settings: PathSettings) -> frozenset[str]:
    """Return the paths of probes and of Prometheus, whose requests are neither logged nor counted."""
    return frozenset(
        {settings.liveness_path, "/health", "/health/deep", settings.readiness_path, settings.metrics_path}
    )


def prefix(scope: Scope) -> str:
    """Return the prefix at which the app is mounted, if it is one that a link may have; otherwise an empty text."""
    found = scope.get("root_path", "")
    return found if _PREFIX.fullmatch(found) else ""
