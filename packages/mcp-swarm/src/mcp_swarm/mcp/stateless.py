"""What FastMCP keeps or promises for sessions, and a server without any must not."""

from typing import Any

from fastmcp import FastMCP
from mcp.server.lowlevel.server import NotificationOptions
from mcp_types import EmptyResult, SetLevelRequestParams
from starlette.types import Scope

from mcp_swarm.mcp import _sdk


def forget_sessions(mcp: FastMCP) -> None:
    """Make a server remember nothing of its callers, and promise none what takes a stream of its own."""
    server = _sdk.low_level(mcp)
    server.notification_options = NotificationOptions()
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, _take_no_level)
    _sdk.store_state_later(mcp)


async def _take_no_level(*_: Any) -> EmptyResult:
    """Accept a log level, and remember none: FastMCP would keep it for everybody who comes to this replica.

    A handshake-protocol caller gets all messages of its calls, if it takes an event stream.
    """
    return EmptyResult()


def drop_session_id(scope: Scope) -> None:
    """Take the session id off a request: from another server or made up, it must not name anybody's state here."""
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"mcp-session-id"]
