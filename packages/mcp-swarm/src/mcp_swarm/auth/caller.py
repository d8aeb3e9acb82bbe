"""Who sent a request, and what that caller may do."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from typing import Any

from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import get_http_request
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from mcp_swarm.settings.rate import NO_RATE, Rate

CALLER = "mcp_swarm.caller"
"""Key of the scope of the `Caller` who sent a request, if that is known. The same object is under `user`, where
Starlette and FastMCP look for it; middleware of others may replace that one."""

ANYBODY = "anybody"
"""The owner of everything while authentication is off."""


class Caller(AuthenticatedUser):
    """One who may send requests: the holder of a key, or a token's subject.

    Args:
        name: for the log, such as `key:ci`. It holds nothing secret.
        owner: whose the things are that its requests make (jobs, rounds); several keys of one tenant share them.
        scopes: what `require_scopes` asks for.
        tools: patterns of the tools' names that it may use; None: all.
        rate: its allowance.
        token: what a tool sees of it by FastMCP's `get_access_token`.
    """

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
        # Of a key the token says whose it is, but not the key: a tool has no use for it.
        super().__init__(token or AccessToken(token="", client_id=name, scopes=list(scopes)))
        self.name = name
        self.owner = owner
        self.tools = tools
        self.rate = rate
        self._allowed = None if tools is None else re.compile("|".join(map(translate, tools)) or r"(?!)")

    def may_use(self, tool: str) -> bool:
        """Whether it may use a tool, or a job, of that name."""
        return self._allowed is None or self._allowed.match(tool) is not None


def caller_of(scope: Mapping[str, Any]) -> Caller | None:
    """Who sent a request, if that is known."""
    caller: Caller | None = scope.get(CALLER)
    return caller


def current_caller() -> Caller | None:
    """Who sent the request that is being answered; None if that isn't known, or nothing is being answered."""
    try:
        return caller_of(get_http_request().scope)
    except RuntimeError:
        return None


def owner_of(scope: Mapping[str, Any]) -> str:
    """The owner of what this request creates: its caller, or `ANYBODY` while authentication is off."""
    caller: Caller | None = scope.get(CALLER)
    return ANYBODY if caller is None else caller.owner


def may_use(scope: Mapping[str, Any], tool: str) -> bool:
    """Whether a request's sender may use a tool, or a job, of that name."""
    caller: Caller | None = scope.get(CALLER)
    return caller is None or caller.may_use(tool)
