"""Changes to FastMCP so that it keeps no session state and offers no features that need such state."""

from typing import Any

from fastmcp import FastMCP
from mcp.server.lowlevel.server import NotificationOptions
from mcp_types import EmptyResult, SetLevelRequestParams

from anyreplica.mcp import _sdk
from anyreplica.mcp._sdk_server import SdkServer


def forget_sessions(mcp: FastMCP) -> None:
    """Configure a server so that it keeps no session state and announces no notifications outside a reply.

    A server of the SDK keeps none, and it announces what its author has chosen.
    """
    if isinstance(mcp, SdkServer):
        return
    server = _sdk.low_level(mcp)
    server.notification_options = NotificationOptions()
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, _ignore_level)


async def _ignore_level(*_: Any) -> EmptyResult:
    """Accept a log level and ignore it, because FastMCP would apply it to all clients of this replica.

    A handshake-protocol client gets all log messages of its calls, if it accepts an event stream.
    """
    return EmptyResult()
