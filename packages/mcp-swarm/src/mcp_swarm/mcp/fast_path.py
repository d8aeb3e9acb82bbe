"""The fast path: a tool call by its plan, validated, run and written with nothing between."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.tools import ToolResult
from mcp_types import CallToolRequestParams

from mcp_swarm.auth.caller import CALLER, Caller
from mcp_swarm.components.call_limits import out_of_time
from mcp_swarm.components.outcome import BODY_OUTCOME, Handover, Outcome
from mcp_swarm.downstream.deadline import END
from mcp_swarm.mcp._sdk import Binding, body_error
from mcp_swarm.mcp.call import Call
from mcp_swarm.mcp.fastmcp_path import FastMcpPath
from mcp_swarm.mcp.plan import Plan
from mcp_swarm.mcp.planning import Plans
from mcp_swarm.mcp.protocol_version import Envelopes
from mcp_swarm.process import eager_task

_PARAMS = frozenset({"name", "arguments", "_meta"})


class FastPath:
    """Answers calls of tools that have a plan, with `full` for what turns out to be unusual."""

    def __init__(self, mcp: FastMCP, state: Any, full: FastMcpPath, envelopes: Envelopes) -> None:
        self.mcp = mcp
        self.full = full
        self.binding = Binding(mcp, state)
        self.envelopes = envelopes

    def plan_for(self, call: Call, plans: Plans) -> Plan | None:
        """The plan of the tool that a call is for; None if this call is one for the FastMCP path.

        Such are a version of the tool, another round's answers, what isn't valid, and what the caller may not use.
        """
        params = call.request.params
        if params is None or not params.keys() <= _PARAMS:
            return None
        name, arguments = params.get("name"), params.get("arguments")
        plan = plans.tools.get(name) if type(name) is str else None
        if plan is None or (arguments is not None and type(arguments) is not dict):
            return None
        caller: Caller | None = call.scope.get(CALLER)
        if caller is not None and not caller.may_use(plan.tool.name):
            return None
        meta = params.get("_meta")
        if meta is None:
            return plan
        if type(meta) is not dict or "fastmcp" in meta:
            return None
        return plan if self.envelopes.is_valid("tools/call", meta, call.version, call.request.size) else None

    def answer(self, call: Call, plan: Plan) -> Awaitable[None]:
        """Answer a tool call; raises as `CallPaths.answer`."""
        running = self._within_middleware(call, plan) if plan.middleware else self._plainly(call, plan)
        task = eager_task.start(running, loop=asyncio.get_running_loop())
        return self._send(call, task.result()) if task.done() else self._wait(call, plan, task)

    def _send(self, call: Call, reply: bytes | Handover) -> Awaitable[None]:
        return call.finish(200, reply) if isinstance(reply, bytes) else self.full.answer(call, reply)

    async def _wait(self, call: Call, plan: Plan, task: asyncio.Task[bytes | Handover]) -> None:
        try:
            await call.wait_for(task, plan.seconds)
            reply = task.result()
        except TimeoutError:
            error = out_of_time("tool", plan.tool.name, plan.seconds)
            reply = Handover(around=Outcome(error=error, logged=True))
        await self._send(call, reply)

    async def _plainly(self, call: Call, plan: Plan) -> bytes | Handover:
        arguments = _arguments(call)
        if len(arguments) > plan.parameters:  # the FastMCP path says which of them nobody knows
            return Handover()
        self.binding.bind(call)
        END.set(time.monotonic() + plan.seconds)  # in this call's own task
        try:
            running = plan.call(arguments)
        except BaseException:  # noqa: BLE001  # the FastMCP path says what is wrong with the arguments
            return Handover()
        try:
            value = await running
        except BaseException as error:  # noqa: BLE001  # SystemExit, too, is only this call's end
            return Handover(body=Outcome(error=body_error(error)))
        try:
            written = plan.write(value)
        except Exception:  # noqa: BLE001  # as above, with the value
            written = None
        if written is None:
            return Handover(body=Outcome(value))
        text, content = written
        if content is None:
            return plan.templates.bare[call.version].fill(call.request.id, text, b"")
        return plan.structured[call.version].fill(call.request.id, text, content)

    async def _within_middleware(self, call: Call, plan: Plan) -> bytes | Handover:
        END.set(time.monotonic() + plan.seconds)  # in this call's own task
        context: MiddlewareContext[Any] = MiddlewareContext(
            message=CallToolRequestParams(name=plan.tool.name, arguments=_arguments(call)),
            source="client",
            type="request",
            method="tools/call",
            fastmcp_context=self.binding.bind(call),
        )
        step: Callable[[MiddlewareContext[Any]], Awaitable[Any]] = partial(self._body, plan)
        for middleware in reversed(plan.middleware):
            step = partial(middleware, call_next=step)
        try:
            result = await step(context)
        except BaseException as error:  # noqa: BLE001
            return Handover(around=Outcome(error=error))
        if type(result) is not ToolResult or result.is_error:
            return Handover(around=Outcome(result))
        try:
            return plan.templates.write(call.request.id, call.version, result)
        except Exception:  # noqa: BLE001  # the FastMCP path's to tell
            return Handover(around=Outcome(result))

    async def _body(self, plan: Plan, context: MiddlewareContext[Any]) -> ToolResult:
        """The innermost step of a chain of middleware: the tool that it asks for in the end."""
        name, arguments = context.message.name, context.message.arguments or {}
        if name == plan.tool.name and len(arguments) <= plan.parameters:
            try:
                running = plan.call(arguments)
            except BaseException:  # noqa: BLE001
                running = None
            if running is not None:
                outcome = Outcome()
                try:
                    outcome.value = await running
                    return plan.tool.convert(outcome.value)
                except BaseException as error:  # noqa: BLE001
                    outcome.error = body_error(error)
                BODY_OUTCOME.set(outcome)
        return await self.mcp.call_tool(name, arguments, run_middleware=False)


def _arguments(call: Call) -> dict[str, Any]:
    return (call.request.params or {}).get("arguments") or {}
