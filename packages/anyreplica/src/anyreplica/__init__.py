"""anyreplica runs MCP servers as identical replicas: any replica answers any request.

The public API consists of the names that this module and `anyreplica.testing` export. Everything else may change in any
release.

    from anyreplica import Progress, Settings, create_app, job

The import of this package changes nothing in the process. Each name is loaded at its first use, so that a module that
needs one name does not wait for all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyreplica._version import __version__

if TYPE_CHECKING:
    from anyreplica import downstream
    from anyreplica.all_settings import Settings
    from anyreplica.app import App, app_factory, create_app
    from anyreplica.cli.main import main
    from anyreplica.components.job import Progress, in_thread, job
    from anyreplica.components.marks import check, completion, lifespan
    from anyreplica.feature import Feature, Parts, Position, Replica
    from anyreplica.features.cache.policy import cached
    from anyreplica.process.replica import replica_name
    from anyreplica.settings.errors import StartupError
    from anyreplica.shared.publish import (
        PromptsListChanged,
        ResourcesListChanged,
        ResourceUpdated,
        ToolsListChanged,
        publish,
    )

__all__ = [
    "App",
    "Feature",
    "Parts",
    "Position",
    "Progress",
    "PromptsListChanged",
    "Replica",
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
    "all_settings": ("Settings",),
    "app": ("App", "app_factory", "create_app"),
    "cli.main": ("main",),
    "components.job": ("Progress", "in_thread", "job"),
    "components.marks": ("check", "completion", "lifespan"),
    "feature": ("Feature", "Parts", "Position", "Replica"),
    "features.cache.policy": ("cached",),
    "process.replica": ("replica_name",),
    "settings.errors": ("StartupError",),
    "shared.publish": ("PromptsListChanged", "ResourceUpdated", "ResourcesListChanged", "ToolsListChanged", "publish"),
}
"""Public names by the module that defines them."""


def __getattr__(name: str) -> Any:
    if name == "downstream":
        return import_module("anyreplica.downstream")
    for module, names in _NAMES.items():
        if name in names:
            if module == "app":
                import_module("anyreplica.process.start").check_versions()
            value = globals()[name] = getattr(import_module(f"anyreplica.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
