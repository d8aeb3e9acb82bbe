"""Who sent a request, and what that caller may do."""

import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from fnmatch import translate
from typing import Any

from fastmcp.server.auth import AccessToken
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from mcp_swarm.settings.rate import NO_RATE, Rate

CALLER = "server.caller"
"""Key of the scope under which stands the `Caller` who sent a request, if that is known."""

USER = "user"
"""Key of the scope under which FastMCP looks for the caller's scopes: Starlette's own."""

ANYBODY = "anybody"
"""Whose a thing is where nobody is asked who they are."""


class Caller:
    """One who may send requests: the holder of a key, or a token's subject.

    Args:
        name: for the log, such as `key:ci`. It holds nothing secret.
        owner: whose the things are that its requests make (jobs, rounds); several keys of one tenant share them.
        scopes: what `require_scopes` asks for.
        tools: patterns of the tools' names that it may use; None: all.
        rate: its allowance.
        token: what a tool sees of it by FastMCP's `get_access_token`.
    """

    __slots__ = ("_allowed", "name", "owner", "rate", "tools", "user")

    def __init__(
        self,
        name: str,
        owner: str,
        *,
        scopes: Iterable[str] = (),
        tools: tuple[str, ...] | None = None,
        rate: Rate = NO_RATE,
        token: AccessToken | None = None,
    ) -> None:
        self.name = name
        self.owner = owner
        self.tools = tools
        self.rate = rate
        # Of a key the token says whose it is, but not the key: a tool has no use for it.
        self.user = AuthenticatedUser(token or AccessToken(token="", client_id=name, scopes=list(scopes)))
        self._allowed = None if tools is None else re.compile("|".join(map(translate, tools)) or r"(?!)")

    def may_use(self, tool: str) -> bool:
        """Whether it may use a tool, or a job, of that name."""
        return self._allowed is None or self._allowed.match(tool) is not None


CURRENT: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""Who sent the request that is being answered, for what knows no scope; None if that isn't known."""


def caller_of(scope: Mapping[str, Any]) -> Caller | None:
    """Who sent a request, if that is known."""
    caller: Caller | None = scope.get(CALLER)
    return caller


def owner_of(scope: Mapping[str, Any]) -> str:
    """Whose a thing is that a request makes: its sender's, or everybody's where nobody is asked who they are."""
    caller: Caller | None = scope.get(CALLER)
    return ANYBODY if caller is None else caller.owner


def may_use(scope: Mapping[str, Any], tool: str) -> bool:
    """Whether a request's sender may use a tool, or a job, of that name."""
    caller: Caller | None = scope.get(CALLER)
    return caller is None or caller.may_use(tool)
