"""The minimum level of log messages: the level that a session has set wins over `client_log_level` of the server.

This module uses private names of FastMCP, which `tests/test_private_names.py` lists.
"""

from contextvars import ContextVar
from typing import Any, cast

from fastmcp import FastMCP
from fastmcp.server.context import _current_context

_NO_SESSION = "__no_session__"
"""FastMCP's name for calls without a session."""

_DEFAULT: ContextVar[str] = ContextVar("default_log_level", default="")


_LEVEL = "_fastmcp_client_log_level"
"""FastMCP's key for the level of a session, since version 4.2."""


class _SessionLevels:
    """The levels of sessions for FastMCP before 4.2: they replace a dictionary that one replica alone would have.

    The session's level is in a record that all replicas share. A call reads it when it sends a message, so until then
    FastMCP must let every message of a session pass.
    """

    def get(self, session: str) -> str | None:
        """Return the lowest level for a session; None: FastMCP applies `client_log_level` itself."""
        return None if session == _NO_SESSION else _lowest_level()


class SessionState(dict[str, Any]):
    """The state of the connection of a session. FastMCP since 4.2 reads the level of the session there."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the lowest level as the level of the session, and the values of all other keys as they are."""
        return _lowest_level() if key == _LEVEL else super().get(key, default)


def _lowest_level() -> str:
    """Return the lowest level, and keep the one that applies if the session has set none."""
    context = _current_context.get()
    _DEFAULT.set((context.fastmcp.client_log_level if context is not None else None) or "")
    return "debug"


def share_levels(server: FastMCP) -> None:
    """Let the calls of sessions decide which log messages of a server their clients get. This may be repeated."""
    if hasattr(server, "_client_log_levels"):
        server._client_log_levels = cast("Any", _SessionLevels())


def use_default_level() -> str:
    """Return the level that applies to the current message if its session has set none. Empty: no minimum.

    FastMCP applies `client_log_level` to the messages of a Context, and not to those of `ctx.session`.
    """
    if found := _DEFAULT.get():
        _DEFAULT.set("")
    return found
