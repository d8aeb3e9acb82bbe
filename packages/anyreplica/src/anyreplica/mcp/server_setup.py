"""The setup of a FastMCP server: what this package changes in it and in the servers that are mounted in it."""

from functools import partial
from typing import Any

from fastmcp import FastMCP
from mcp.server.lowlevel.server import NotificationOptions
from mcp_types import EmptyResult, SetLevelRequestParams

from anyreplica.auth.visibility import InnerVisibility, ProxiedVisibility
from anyreplica.components.compat import choose_masking
from anyreplica.mcp.compat import mounts, sdk, state_store
from anyreplica.mcp.compat.log_levels import share_levels
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.compat.state_store import StateStore
from anyreplica.mcp.own_work import can_hide_own_work
from anyreplica.mcp.registry import Prepare


class ServerSetup:
    """The adopted servers. A server may be mounted while the replica runs: call `apply` after each change.

    Attributes:
        timeouts: time limits of tools with a timeout of their own, in seconds, by the name that clients use. The
            planner fills it.
    """

    def __init__(self, mcp: FastMCP, prepare: Prepare, *, shows_errors: bool, limits_tools: bool) -> None:
        self.mcp = mcp
        self.timeouts: dict[str, float] = {}
        _forget_sessions(mcp)
        self._prepare = prepare
        self._shows_errors = shows_errors
        self._limits_tools = limits_tools
        self._state: StateStore | None = None
        self._keeps_state = False

    def apply(self) -> None:
        """Prepare all servers: their components, the masking of their errors, and their stores of session state.

        If callers may have a list of tools, mounted servers get the middleware that applies it, and so do servers of
        this process behind a proxy, before the proxy first uses them.

        Raises:
            ValueError: a component cannot be prepared.
        """
        for number, server in enumerate(mounts.servers_of(self.mcp)):
            can_hide_own_work(server)
            mounts.prepare_components(server, self._prepare)
            choose_masking(server, self.mcp, debug=self._shows_errors)
            if number and self._limits_tools:
                others = [each for each in server.middleware if type(each) is not InnerVisibility]
                server.middleware[:] = [InnerVisibility(partial(mounts.outer_names, self.mcp, server)), *others]
            if self._limits_tools:
                mounts.watch_proxies(server, self._limit_proxied)
            if self._keeps_state:
                share_levels(server)
            if self._state is not None:
                # Each server has state of its own. All replicas number their servers in the same order.
                state_store.store_state(server, self._state.part(number))

    def _limit_proxied(self, proxied: FastMCP) -> None:
        """Apply the lists of tools in a server behind a proxy, and in all servers inside it."""
        for server in mounts.servers_of(proxied):
            found = [each for each in server.middleware if isinstance(each, ProxiedVisibility)]
            if not any(each.root is self.mcp for each in found):
                others = [each for each in server.middleware if each not in found]
                names = partial(mounts.outer_names, self.mcp, server)
                server.middleware[:] = [ProxiedVisibility(self.mcp, names), *others]
            mounts.watch_proxies(server, self._limit_proxied)

    def store_state(self, state: StateStore, *, keeps_state: bool) -> None:
        """Choose the store for session state.

        Args:
            keeps_state: whether a session of a client keeps state between its calls.
        """
        self._state, self._keeps_state = state, keeps_state
        self.apply()


def _forget_sessions(mcp: FastMCP) -> None:
    """Configure a server so that it keeps no session state and announces no notifications outside a reply.

    A server of the SDK keeps none, and it announces what its author has chosen.
    """
    if isinstance(mcp, SdkServer):
        return
    server = sdk.low_level(mcp)
    server.notification_options = NotificationOptions()
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, _ignore_level)


async def _ignore_level(*_: Any) -> EmptyResult:
    """Accept a log level and ignore it, because FastMCP would apply it to all clients of this replica.

    A handshake-protocol client gets all log messages of its calls, if it accepts an event stream.
    """
    return EmptyResult()
