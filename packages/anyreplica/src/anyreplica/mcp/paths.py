"""The choice of the path for a request: the fast path, the direct path, the cached lists or the FastMCP path."""

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from typing import Any

from anyreplica.auth.caller import caller_of
from anyreplica.http.responses import encode
from anyreplica.mcp.call import Call
from anyreplica.mcp.call_span import in_span, is_on
from anyreplica.mcp.compat import mounts
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.direct_path import DirectPath
from anyreplica.mcp.fast_path import FastPath
from anyreplica.mcp.fastmcp_path import FastMcpPath
from anyreplica.mcp.message import Envelopes
from anyreplica.mcp.own_work import own_work
from anyreplica.mcp.plan import DirectPlan
from anyreplica.mcp.planning import Plans, plan, plan_sdk_server
from anyreplica.mcp.server_setup import ServerSetup

logger = logging.getLogger(__name__)

CACHED_METHODS = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover", "ping"}
)

_REMEMBERED = 512
"""Maximum number of cached replies. The number of different sets of tools is usually small."""

_Asked = tuple[str, str, tuple[str, ...] | None]

_HANDSHAKE, _STATELESS = ("handshake", "fast"), ("stateless", "fast")
"""Protocol family and path for the access log. The FastMCP path replaces them when it takes a request over."""

_RETRY_SECONDS = 30
"""Pause before the next attempt to list the tools of a server whose tools could not be listed."""


class CachedLists:
    """A cache of the FastMCP path's replies, by method, protocol version and the tools that the caller may use."""

    def __init__(self, fallback: FastMcpPath, envelopes: Envelopes) -> None:
        self.fallback = fallback
        self.envelopes = envelopes
        self._known: dict[_Asked, bytes] = {}

    def forget(self) -> None:
        """Drop all replies, because the components have changed.

        The dictionary is replaced, so that a reply that is still in progress goes into the old dictionary.
        """
        self._known = {}

    def answer(self, call: Call) -> Awaitable[None]:
        """Answer a request for a list. The FastMCP path answers requests for a part of a list and invalid requests.

        Awaiting the reply raises `Refused` if the call's session id is invalid or its session has ended.
        """
        if not call.channel.is_open:
            return self._open_and_answer(call)
        if not self._asks_for_all(call):
            return self.fallback.answer(call)
        result = self._known.get(_asked(call))
        if result is None:
            return self._ask(call)
        return call.reply.finish(200, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(call.request.id), result))

    async def _open_and_answer(self, call: Call) -> None:
        await call.channel.open(call)
        await self.answer(call)

    async def _ask(self, call: Call) -> None:
        known = self._known
        try:
            result = await self.fallback.result(call)
        except Exception:  # noqa: BLE001  # the FastMCP path logs and answers the error
            await self.fallback.answer(call)
            return
        if len(known) >= _REMEMBERED:
            known.clear()
        known[_asked(call)] = encode(result)
        await self.answer(call)

    def _asks_for_all(self, call: Call) -> bool:
        request = call.request
        params = request.params
        if not params:
            return not call.modern
        meta = params.get("_meta")
        if len(params) > 1 or type(meta) is not dict:
            return False
        return self.envelopes.is_valid(request.method, meta, call.version, request.size)


def _asked(call: Call) -> _Asked:
    caller = caller_of(call.scope)
    return call.request.method, call.version, None if caller is None else caller.tools


class CallPaths:
    """The ways to answer a request: the fast path, the direct path, the cached lists, and otherwise the FastMCP path.

    Args:
        state: the value of FastMCP's lifespan.
        seconds: time limit of a call.
        keeps_state: whether sessions have state, which needs FastMCP's steps.
    """

    def __init__(self, setup: ServerSetup, state: Any, seconds: float, *, keeps_state: bool) -> None:
        mcp = self.mcp = setup.mcp
        self.setup = setup
        self.seconds = seconds
        self.fallback = FastMcpPath(mcp, state)
        self.traced = is_on()
        handed_over = FastMcpPath(mcp, state, in_span=True) if self.traced else self.fallback
        envelopes = Envelopes()
        self.fast = FastPath(mcp, state, handed_over, envelopes)
        self.direct = DirectPath(mcp, state, handed_over)
        self.lists = CachedLists(handed_over, envelopes)
        self.plans = Plans()
        self.keeps_state = keeps_state
        self._changing = mounts.changing(mcp)
        self._planned: object = None
        self._is_planned = False
        self._planning = asyncio.Lock()

    async def plan(self, *, again: bool = False) -> None:
        """Decide the path of each tool. This is repeated after each change of the components.

        If the tools cannot be listed, for example because the server behind a proxy is away, FastMCP answers all
        requests. `keep_planning` then tries again.

        Args:
            again: whether to make new plans even if nothing has changed.

        Raises:
            Exception: the tools cannot be listed at the start, and no provider can be the reason.
        """
        async with self._planning:
            # Another request may have made the plans while this one waited for the lock.
            if again or self._stamp() != self._planned:
                try:
                    await self._plan()
                    self._is_planned = True
                except Exception as error:
                    if self._planned is None and not mounts.has_unsteady_provider(self.mcp):
                        raise
                    reason = " ".join(f"{type(error).__name__}: {error}".split())
                    logger.warning("The tools cannot be listed (%.300s); FastMCP answers all requests", reason)
                    logger.debug("The reason in full", exc_info=True)
                    self.plans, self._planned, self._is_planned = Plans(), self._stamp(), False
                    self.lists.forget()

    async def keep_planning(self) -> None:
        """Every `_RETRY_SECONDS`, try again to make the plans, if the last try failed. This method never returns."""
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            if not self._is_planned:
                await self.plan(again=True)

    async def _plan(self) -> None:
        self.setup.apply()  # a server may have been mounted since
        self._changing = mounts.changing(self.mcp)
        stamp = self._stamp()
        with own_work():
            if isinstance(self.mcp, SdkServer):
                self.plans = await plan_sdk_server(self.mcp)
            else:
                self.plans = await plan(self.mcp, self.seconds, self.setup.timeouts, keeps_state=self.keeps_state)
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
        call.record.path = _STATELESS if call.modern else _HANDSHAKE
        method = call.request.method
        if method == "tools/call":
            planned = self.fast.plan_for(call, self.plans)
            if isinstance(planned, DirectPlan):
                # Only the FastMCP path makes all spans of such a call.
                return self.fallback.answer(call) if self.traced else self.direct.answer(call, planned)
            if planned is not None:
                if self.traced:
                    return in_span(self.mcp, call, partial(self.fast.answer, call, planned), planned.tool)
                return self.fast.answer(call, planned)
        elif method in CACHED_METHODS and self.plans.cacheable:
            if self.traced:
                return in_span(self.mcp, call, partial(self.lists.answer, call))
            return self.lists.answer(call)
        return self.fallback.answer(call)

    async def _plan_and_answer(self, call: Call) -> None:
        await self.plan()
        await self.answer(call)
