"""The minimum level of log messages: the level that a session has set wins over `client_log_level` of the server.

This module uses private names of FastMCP, which `tests/test_private_names.py` lists.
"""

import weakref
from contextvars import ContextVar
from typing import Any, cast

from fastmcp import FastMCP

_NO_SESSION = "__no_session__"
"""FastMCP's name for calls without a session."""

_DEFAULT: ContextVar[str] = ContextVar("default_log_level", default="")


class _SessionLevels:
    """The levels of sessions, in the place of FastMCP's dictionary, which one replica alone would have.

    The session's level is in a record that all replicas share. A call reads it when it sends a message, so until then
    FastMCP must let every message of a session pass.
    """

    def __init__(self, server: FastMCP) -> None:
        self._server = weakref.ref(server)

    def get(self, session: str) -> str | None:
        """Return the lowest level for a session; None: FastMCP applies `client_log_level` itself."""
        if session == _NO_SESSION:
            return None
        server = self._server()
        _DEFAULT.set((server.client_log_level if server is not None else None) or "")
        return "debug"


def share_levels(server: FastMCP) -> None:
    """Let the calls of sessions decide which log messages of a server their clients get. This may be repeated."""
    if not isinstance(server._client_log_levels, _SessionLevels):
        server._client_log_levels = cast("Any", _SessionLevels(server))


def take_default_level() -> str:
    """Return the level that applies to the current message if its session has set none. Empty: no minimum.

    FastMCP applies `client_log_level` to the messages of a Context, and not to those of `ctx.session`.
    """
    if found := _DEFAULT.get():
        _DEFAULT.set("")
    return found
