"""The choice whether clients get the texts of unexpected errors (`mask_error_details`), for each FastMCP server.

FastMCP's default shows these texts to clients, and the default of this package hides them. FastMCP keeps only the
effective value, so a server without a choice looks like one with `mask_error_details=False`. `note_choices` replaces
`FastMCP.__init__`, to know what the author has written. The command calls it before it imports the author's code. A
server that was made before counts as one without a choice, unless it hides the texts.
"""

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import fastmcp
from fastmcp import FastMCP

from anyreplica.components.containment import SHOWING_ERRORS

_OPTION = "mask_error_details"
_NOTING = "_anyreplica_notes_choices"
_choices: WeakKeyDictionary[FastMCP, bool | None] = WeakKeyDictionary()
"""The values that authors have passed to `FastMCP(mask_error_details=…)`. None: no choice."""


def note_choices() -> None:
    """Note from now on what authors pass to `FastMCP(mask_error_details=…)`."""
    if not hasattr(FastMCP.__init__, _NOTING):
        FastMCP.__init__ = _noting(FastMCP.__init__)  # type: ignore[method-assign]


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
    made = (_choice(server), _choice(root), default)
    hides = not debug and next(choice for choice in made if choice is not None)
    server._mask_error_details = hides
    if hides:
        SHOWING_ERRORS.discard(server)
    else:
        SHOWING_ERRORS.add(server)


def _choice(server: FastMCP) -> bool | None:
    """Return the author's choice, or None. Of a server that was made before `note_choices`, only True is known."""
    if server not in _choices:
        _choices[server] = server._mask_error_details or None
    return _choices[server]


def _noting(make: Callable[..., None]) -> Callable[..., None]:
    """Wrap `FastMCP.__init__` so that it notes what the author has written."""

    @functools.wraps(make)
    def noting(self: FastMCP, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        _choices[self] = options.get(_OPTION)

    setattr(noting, _NOTING, True)
    return noting
