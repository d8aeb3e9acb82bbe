"""The direct path: FastMCP's `call_tool` answers a tool call, without the steps of the SDK around it.

It is for tools without a call plan, such as tools of a provider and tools with a transform, and for calls that select a
version of a tool.
"""

import asyncio
import time
from collections.abc import Awaitable
from functools import partial
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.utilities.versions import VersionSpec

from anyreplica.components import arguments as arguments_
from anyreplica.components.deadline import END
from anyreplica.components.outcome import Handover
from anyreplica.mcp.call import Call
from anyreplica.mcp.compat.contexts import Binding, suppress_spans
from anyreplica.mcp.compat.sdk import selected_version
from anyreplica.mcp.compat.unchecked import tool_params
from anyreplica.mcp.fast_path import reply_to, run_middleware, wait_for
from anyreplica.mcp.fastmcp_path import HANDSHAKE_FALLBACK, STATELESS_FALLBACK, FastMcpPath
from anyreplica.mcp.plan import DirectPlan
from anyreplica.process.tasks import start_eagerly


class DirectPath:
    """The path for tools with a direct plan. `fallback` is the FastMCP path, which takes over unusual outcomes."""

    def __init__(self, mcp: FastMCP, state: Any, fallback: FastMcpPath) -> None:
        self.mcp = mcp
        self.fallback = fallback
        self.binding = Binding(mcp, state, mcp)

    def answer(self, call: Call, plan: DirectPlan) -> Awaitable[None]:
        """Answer a tool call. Awaiting the reply raises the same exceptions as `FastPath.answer`."""
        call.record.path = STATELESS_FALLBACK if call.modern else HANDSHAKE_FALLBACK
        if not call.channel.is_open:
            return self._open_and_answer(call, plan)
        task = start_eagerly(self._call(call, plan), loop=asyncio.get_running_loop())
        if task.done():
            return reply_to(call, task.result(), self.fallback)
        return wait_for(call, task, plan.name, plan.seconds, self.fallback)

    async def _open_and_answer(self, call: Call, plan: DirectPlan) -> None:
        await self.answer(await call.channel.open(call), plan)

    async def _call(self, call: Call, plan: DirectPlan) -> bytes | Handover:
        params = call.request.params or {}
        arguments = params.get("arguments") or {}
        if arguments_.count(arguments) > arguments_.FEW:
            return Handover()  # the FastMCP path checks many arguments before it validates them
        version = selected_version(params.get("_meta"))
        END.set(time.monotonic() + plan.seconds)  # this task runs this call only, so the deadline affects no other call
        spec = VersionSpec(eq=version) if version else None
        call_tool = partial(self.mcp.call_tool, version=spec, run_middleware=False)
        bound = self.binding.bind(call)
        suppress_spans()  # this path is only taken while tracing is off
        if not plan.steps:
            return await run_middleware(call, plan, None, lambda _: call_tool(plan.name, dict(arguments)))
        context: MiddlewareContext[Any] = MiddlewareContext(
            message=tool_params(plan.name, arguments, {"fastmcp": {"version": version}} if version else None),
            source="client",
            type="request",
            method="tools/call",
            fastmcp_context=bound,
        )
        return await run_middleware(call, plan, context, lambda last: call_tool(*_called(last)))


def _called(context: MiddlewareContext[Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of the tool that middleware pass on."""
    return context.message.name, context.message.arguments or {}
