"""The choice of the path for a request: the fast path, the direct path, the cached lists or the FastMCP path."""

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from typing import Any

from anyreplica.http.access_log import PATH_TAKEN
from anyreplica.mcp import _mounts
from anyreplica.mcp.adoption import Adoption
from anyreplica.mcp.cached_lists import CACHED_METHODS, CachedLists
from anyreplica.mcp.call import Call
from anyreplica.mcp.call_span import in_span, is_on
from anyreplica.mcp.direct_path import DirectPath
from anyreplica.mcp.fast_path import FastPath
from anyreplica.mcp.fastmcp_path import FastMcpPath
from anyreplica.mcp.plan import DirectPlan
from anyreplica.mcp.planning import Plans, plan
from anyreplica.mcp.protocol_version import Envelopes
from anyreplica.sessions.sessions import Sessions

logger = logging.getLogger(__name__)

_HANDSHAKE, _STATELESS = ("handshake", "fast"), ("stateless", "fast")
"""Protocol family and path for the access log. The FastMCP path replaces them when it takes a request over."""


class CallPaths:
    """The ways to answer a request: the fast path, the direct path, the cached lists, and otherwise the FastMCP path.

    Args:
        state: the value of FastMCP's lifespan.
        seconds: time limit of a call.
        sessions: the sessions of clients; None if HANDSHAKE_SESSIONS is off.
    """

    def __init__(self, adoption: Adoption, state: Any, seconds: float, sessions: Sessions | None = None) -> None:
        mcp = self.mcp = adoption.mcp
        self.adoption = adoption
        self.seconds = seconds
        self.full = FastMcpPath(mcp, state, sessions)
        self.traced = is_on()
        handed_over = FastMcpPath(mcp, state, sessions, in_span=True) if self.traced else self.full
        envelopes = Envelopes()
        self.fast = FastPath(mcp, state, handed_over, envelopes)
        self.direct = DirectPath(mcp, state, handed_over)
        self.lists = CachedLists(handed_over, envelopes)
        self.plans = Plans()
        self.keeps_state = sessions is not None and sessions.records is not None
        self._changing = _mounts.changing(mcp)
        self._planned: object = None
        self._planning = asyncio.Lock()

    async def plan(self) -> None:
        """Decide the path of each tool. This is repeated after each change of the components."""
        async with self._planning:
            if self._stamp() == self._planned:  # another request has made the plans while this one waited for the lock
                return
            self.adoption.adopt()  # a server may have been mounted since
            self._changing = _mounts.changing(self.mcp)
            stamp = self._stamp()
            self.plans = await plan(self.mcp, self.seconds, self.adoption.timeouts, keeps_state=self.keeps_state)
            self._planned = stamp
            self.lists.forget()
        paths = self.plans.paths
        for path in sorted(set(paths.values())):
            logger.info("Path of %s: %s", ", ".join(tool for tool in paths if paths[tool] == path), path)

    def _stamp(self) -> tuple[int, ...]:
        """Return a value that differs after each change of the components or of what decides the paths."""
        registries, counted = self._changing
        return (*[each.changes for each in registries], *map(len, counted))

    def answer(self, call: Call) -> Awaitable[None]:
        """Answer a request. Awaiting the reply raises `ClientGone` if the client closes the connection."""
        if self._stamp() != self._planned:
            return self._plan_and_answer(call)
        call.scope[PATH_TAKEN] = _STATELESS if call.modern else _HANDSHAKE
        method = call.request.method
        if method == "tools/call":
            planned = self.fast.plan_for(call, self.plans)
            if isinstance(planned, DirectPlan):
                # Only the FastMCP path makes all spans of such a call.
                return self.full.answer(call) if self.traced else self.direct.answer(call, planned)
            if planned is not None:
                if self.traced:
                    return in_span(self.mcp, call, partial(self.fast.answer, call, planned), planned.tool)
                return self.fast.answer(call, planned)
        elif method in CACHED_METHODS and self.plans.cacheable:
            if self.traced:
                return in_span(self.mcp, call, partial(self.lists.answer, call))
            return self.lists.answer(call)
        return self.full.answer(call)

    async def _plan_and_answer(self, call: Call) -> None:
        try:
            await self.plan()
        except Exception:
            logger.exception("After a change, the tools cannot be listed; FastMCP answers all requests")
            self.plans, self._planned = Plans(), self._stamp()
            self.lists.forget()
        await self.answer(call)
