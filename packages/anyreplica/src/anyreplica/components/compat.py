"""The choice whether clients get the texts of unexpected errors (`mask_error_details`), for each FastMCP server.

FastMCP's default shows these texts to clients, and the default of this package hides them. FastMCP keeps only the
effective value. So this module replaces `FastMCP.__init__`, to know what the author has written. The choice of a server
that was made before the import of this module is unknown: the server counts as one without a choice.
"""

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import fastmcp
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context

_OPTION = "mask_error_details"
_written: WeakKeyDictionary[FastMCP, bool] = WeakKeyDictionary()
"""The values that authors have passed to `FastMCP(mask_error_details=…)`."""


def choose_masking(server: FastMCP, root: FastMCP, *, debug: bool) -> None:
    """Choose whether a server hides the texts of unexpected errors from clients.

    The first of these that makes a choice decides: `DEBUG_ERRORS=true`, the author of the server, the author of the
    root server, FastMCP's setting (`FASTMCP_MASK_ERROR_DETAILS`). If none does, the texts are hidden.

    Args:
        root: the server in which `server` is mounted, at any depth, or `server` itself.
        debug: the setting `DEBUG_ERRORS`.
    """
    settings = fastmcp.settings
    default = settings.mask_error_details if _OPTION in settings.model_fields_set else True
    server._mask_error_details = not debug and _written.get(server, _written.get(root, default))


def is_masking() -> bool:
    """Return whether the server of the running call hides the texts of unexpected errors from clients."""
    return get_context().fastmcp._mask_error_details


def _noting(make: Callable[..., None]) -> Callable[..., None]:
    """Wrap `FastMCP.__init__` so that it notes what the author has written."""

    @functools.wraps(make)
    def noting(self: FastMCP, *args: Any, **options: Any) -> None:
        if (masked := options.get(_OPTION)) is not None:
            _written[self] = masked
        make(self, *args, **options)

    return noting


FastMCP.__init__ = _noting(FastMCP.__init__)  # type: ignore[method-assign]
