"""A registry of components that prepares each component that is added, and counts its changes."""

from collections.abc import Callable
from typing import Any

Prepare = Callable[[Any], Any]


class Components(dict[str, Any]):
    """The registry of a FastMCP server or of an `MCPServer`. It prepares each component that is added."""

    def __init__(self, components: dict[str, Any], prepare: Prepare) -> None:
        super().__init__()
        self._prepare = prepare
        self.changes = 0
        """Number of changes until now."""
        for key, component in components.items():
            self[key] = component

    def __setitem__(self, key: str, value: Any) -> None:
        self.changes += 1
        super().__setitem__(key, self._prepare(value))

    def __delitem__(self, key: str) -> None:
        self.changes += 1
        super().__delitem__(key)

    def clear(self) -> None:
        self.changes += 1
        super().clear()
