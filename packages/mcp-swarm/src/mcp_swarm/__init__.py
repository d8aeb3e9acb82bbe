"""mcp-swarm: MCP servers as identical replicas, any of which answers any request.

What this module and `mcp_swarm.testing` export is the public API. Everything else may change in any release.

    from mcp_swarm import Progress, Settings, create_app, job

Importing the package changes nothing in the process. Each name is imported when it is first used, so that a tool that
needs one of them doesn't wait for all.
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
    "main",
    "publish",
    "replica_name",
]

_HOMES = {
    "App": "app",
    "app_factory": "app",
    "create_app": "app",
    "main": "cli.main",
    "cached": "components.cache.policy",
    "check": "components.checks",
    "completion": "components.completion",
    "Progress": "components.job",
    "in_thread": "components.job",
    "job": "components.job",
    "replica_name": "process.replica",
    "Settings": "settings",
    "StartupError": "settings.errors",
    "PromptsListChanged": "shared.publish",
    "ResourceUpdated": "shared.publish",
    "ResourcesListChanged": "shared.publish",
    "ToolsListChanged": "shared.publish",
    "publish": "shared.publish",
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    if name == "downstream":
        return import_module("mcp_swarm.downstream")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"mcp_swarm.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
