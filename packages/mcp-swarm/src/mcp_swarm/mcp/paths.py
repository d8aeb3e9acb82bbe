"""Which lane a request takes."""

import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import FastMCP

from mcp_swarm.http.access_lines import WAY
from mcp_swarm.mcp import _sdk, call_span
from mcp_swarm.mcp.cached_lists import METHODS, Catalogue
from mcp_swarm.mcp.call import Call
from mcp_swarm.mcp.envelope import Envelopes
from mcp_swarm.mcp.fast_path import FastLane
from mcp_swarm.mcp.fastmcp_path import FullLane, InSpan
from mcp_swarm.mcp.plan import Plan
from mcp_swarm.mcp.planning import Plans, plan
from mcp_swarm.tracing.parent import untraced

logger = logging.getLogger(__name__)

_HANDSHAKE, _STATELESS = ("handshake", "fast"), ("stateless", "fast")
"""Era and lane, until the full lane takes the request over."""


class Lanes:
    """The fast lane, the remembered lists, and the full lane for all else."""

    def __init__(self, mcp: FastMCP, state: Any, seconds: float, timeouts: Mapping[str, float]) -> None:
        self.mcp = mcp
        self.seconds = seconds
        self.timeouts = timeouts
        self.full = FullLane(mcp, state)
        self.traced = call_span.is_on()
        handed_over = InSpan(mcp, state) if self.traced else self.full
        envelopes = Envelopes()
        self.fast = FastLane(mcp, state, handed_over, envelopes)
        self.catalogue = Catalogue(handed_over, envelopes)
        self.plans = Plans()
        self._stamp = _sdk.count_changes(mcp)
        self._planned = self._stamp()

    async def plan(self) -> None:
        """Decide which tool takes which lane; again when components have changed."""
        self._planned = self._stamp()
        self.catalogue.forget()
        self.plans = await plan(self.mcp, self.seconds, self.timeouts)
        by_lane: dict[str, list[str]] = {}
        for tool, lane in self.plans.lanes.items():
            by_lane.setdefault(lane, []).append(tool)
        for lane, tools in sorted(by_lane.items()):
            logger.info("Lane of %s: %s", ", ".join(tools), lane)

    def answer(self, call: Call) -> Awaitable[None]:
        """Answer a request.

        Raises (when it is awaited):
            ClientGone: the caller closed the connection, and the call was cancelled.
        """
        if self._stamp() != self._planned:
            return self._answer_anew(call)
        call.scope[WAY] = _STATELESS if call.modern else _HANDSHAKE
        method = call.request.method
        if method == "tools/call":
            planned = self.fast.plan_for(call, self.plans)
            if planned is None:
                return self.full.answer(call)
            return self._answer_traced(call, planned) if self.traced else self.fast.answer(call, planned)
        if method in METHODS and self.plans.cacheable:
            return self._answer_traced(call, None) if self.traced else self.catalogue.answer(call)
        return self.full.answer(call)

    def _answer_traced(self, call: Call, planned: Plan | None) -> Awaitable[None]:
        """Answer by the fast lane or from what is remembered, neither of which FastMCP gets to see."""
        if planned is None:
            return call_span.in_list_span(self.mcp, call, lambda: self.catalogue.answer(call))
        return call_span.in_tool_span(self.mcp, planned.tool, call, lambda: self.fast.answer(call, planned))

    async def _answer_anew(self, call: Call) -> None:
        await self.plan()
        await self.answer(call)


@asynccontextmanager
async def open_lanes(mcp: FastMCP, seconds: float, timeouts: Mapping[str, float]) -> AsyncIterator[Lanes]:
    """The lanes, for as long as FastMCP's own lifespan is open.

    Args:
        seconds: a call's time, unless its tool has one of its own.
        timeouts: seconds by tool's name.
    """
    async with _sdk.lifespan_of(mcp) as state:
        lanes = Lanes(mcp, state, seconds, timeouts)
        with untraced():
            await lanes.plan()
        yield lanes
