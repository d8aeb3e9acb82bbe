"""mcp-swarm runs MCP servers as identical replicas: any replica answers any request.

The names that this module and `mcp_swarm.testing` export are the public API. Everything else may change in any release.

    from mcp_swarm import Progress, Settings, create_app, job

The import of this package changes nothing in the process. Each name is loaded at its first use, so that a module that
needs one name does not wait for all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcp_swarm._version import __version__

if TYPE_CHECKING:
    from mcp_swarm import downstream
    from mcp_swarm.app import App, app_factory, create_app
    from mcp_swarm.cli.main import main
    from mcp_swarm.components.cache.policy import cached
    from mcp_swarm.components.checks import check
    from mcp_swarm.components.completion import completion
    from mcp_swarm.components.job import Progress, in_thread, job
    from mcp_swarm.components.lifespan import lifespan
    from mcp_swarm.process.replica import replica_name
    from mcp_swarm.settings import Settings
    from mcp_swarm.settings.errors import StartupError
    from mcp_swarm.shared.publish import (
        PromptsListChanged,
        ResourcesListChanged,
        ResourceUpdated,
        ToolsListChanged,
        publish,
    )

__all__ = [
    "App",
    "Progress",
    "PromptsListChanged",
    "ResourceUpdated",
    "ResourcesListChanged",
    "Settings",
    "StartupError",
    "ToolsListChanged",
    "__version__",
    "app_factory",
    "cached",
    "check",
    "completion",
    "create_app",
    "downstream",
    "in_thread",
    "job",
    "lifespan",
    "main",
    "publish",
    "replica_name",
]

_NAMES = {
    "app": ("App", "app_factory", "create_app"),
    "cli.main": ("main",),
    "components.cache.policy": ("cached",),
    "components.checks": ("check",),
    "components.completion": ("completion",),
    "components.job": ("Progress", "in_thread", "job"),
    "components.lifespan": ("lifespan",),
    "process.replica": ("replica_name",),
    "settings": ("Settings",),
    "settings.errors": ("StartupError",),
    "shared.publish": ("PromptsListChanged", "ResourceUpdated", "ResourcesListChanged", "ToolsListChanged", "publish"),
}
"""Public names by the module that defines them."""


def __getattr__(name: str) -> Any:
    if name == "downstream":
        return import_module("mcp_swarm.downstream")
    for module, names in _NAMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"mcp_swarm.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
