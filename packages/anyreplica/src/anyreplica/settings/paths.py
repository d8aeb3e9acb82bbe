"""Settings of the paths that a replica serves, so that a server may use the default ones itself."""

import re
from typing import Self

from pydantic import field_validator, model_validator

from anyreplica.settings.words import SettingsGroup

_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_LONGEST = 100


class PathSettings(SettingsGroup):
    """Paths of a replica."""

    mcp_path: str = "/mcp"
    """Path of the MCP endpoint. Clients then connect to this path."""
    liveness_path: str = "/healthz"
    """Path of the liveness probe, also of a worker. Move it if your server has a route at this path."""
    readiness_path: str = "/readyz"
    """Path of the readiness probe, also of a worker. Move it if your server has a route at this path."""
    metrics_path: str = "/metrics"
    """Path of the metrics for Prometheus and the autoscaler. Move it if your server has a route at this path."""
    protect_custom_routes: bool = False
    """Whether the routes that a server adds with `@mcp.custom_route` need authentication, as `MCP_PATH` does. `false`:
    everybody may use them, as FastMCP documents it, for example for webhooks and OAuth callbacks."""

    @field_validator("mcp_path", "liveness_path", "readiness_path", "metrics_path", mode="after")
    @classmethod
    def _path(cls, value: str) -> str:
        path = value.rstrip("/")
        if len(path) > _LONGEST or not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
            raise ValueError("write it like /mcp: a slash, and then letters, digits, '.', '_', '~', '-' and slashes")
        return path

    @model_validator(mode="after")
    def _different(self) -> Self:
        paths = {
            "MCP_PATH": self.mcp_path,
            "LIVENESS_PATH": self.liveness_path,
            "READINESS_PATH": self.readiness_path,
            "METRICS_PATH": self.metrics_path,
        }
        seen: dict[str, str] = {}
        for name, path in paths.items():
            if other := seen.get(path):
                raise ValueError(f"{name}={path}: {other} has the same path; choose another one")
            seen[path] = name
        return self
