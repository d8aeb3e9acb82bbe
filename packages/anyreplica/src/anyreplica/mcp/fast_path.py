"""The fast path: it validates, runs and answers a tool call with the tool's call plan, without FastMCP's server.

The direct path is for tools without a call plan, such as tools of a provider and tools with a transform, and for calls
that select a version of a tool. For these, FastMCP's `call_tool` answers, without the steps of the SDK around it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.tools import ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp.server.runner import aclose_shielded

from anyreplica.auth.caller import Caller
from anyreplica.components import arguments as arguments_
from anyreplica.components.call_limits import DEADLINE, out_of_time
from anyreplica.components.outcome import BODY_OUTCOME, Handover, Outcome
from anyreplica.mcp.call import Call
from anyreplica.mcp.compat.contexts import Binding, left_open, suppress_spans, tool_params
from anyreplica.mcp.compat.sdk import body_error, selected_version
from anyreplica.mcp.fastmcp_path import HANDSHAKE_FALLBACK, STATELESS_FALLBACK, FastMcpPath
from anyreplica.mcp.message import Envelopes
from anyreplica.mcp.plan import DirectPlan, Plan
from anyreplica.mcp.planning import Plans
from anyreplica.process.event_loop import EagerTask

CallTool = Callable[[Any], Awaitable[Any]]

_set_deadline = DEADLINE.set
"""Sets the deadline of the running task. Each call has a task of its own, so no other call gets this deadline."""


async def run_middleware(call: Call, plan: Plan | DirectPlan, context: Any, body: CallTool) -> bytes | Handover:
    """Call a tool through the registered middleware, and return the response; or hand an unusual outcome over.

    Args:
        context: the context that the first middleware gets; None if the plan has no middleware.
        body: the innermost step, which calls the tool.
    """
    step = body
    for outer in reversed(plan.steps):
        step = partial(outer, call_next=step)
    try:
        result = await step(context)
    except BaseException as error:  # noqa: BLE001  # even a SystemExit must end this call only
        return Handover(after_middleware=Outcome(error=error))
    finally:
        if (connection := left_open()) is not None:
            await aclose_shielded(connection)
    if type(result) is not ToolResult or result.is_error:
        return Handover(after_middleware=Outcome(result))
    try:
        return plan.templates.write(call.request.id, call.version, result)
    except Exception:  # noqa: BLE001  # the FastMCP path reports what is wrong with the result
        return Handover(after_middleware=Outcome(result))


def reply_to(call: Call, reply: bytes | Handover, fallback: FastMcpPath) -> Awaitable[None]:
    """Send the reply of the fast path. If there is only a result, the FastMCP path writes the reply."""
    return call.reply.finish(200, reply) if isinstance(reply, bytes) else fallback.answer(call, reply)


async def wait_for(
    call: Call, task: asyncio.Task[bytes | Handover], tool: str, seconds: float, fallback: FastMcpPath
) -> None:
    """Wait for the task of a call, at most for its time limit, and reply."""
    try:
        await call.reply.wait_for(task, seconds)
        reply = task.result()
    except TimeoutError:
        error = out_of_time("tool", tool, seconds)
        reply = Handover(after_middleware=Outcome(error=error, logged=True))
    await reply_to(call, reply, fallback)


class Bindings(dict[FastMCP, Binding]):
    """The sources of request contexts. That of a mounted server is made in the first call of one of its tools."""

    def __init__(self, root: FastMCP, state: Any) -> None:
        super().__init__({root: Binding(root, state, root)})
        self._root = root
        self._state = state

    def __missing__(self, server: FastMCP) -> Binding:
        """Make the source of a server's request contexts."""
        self[server] = made = Binding(server, self._state, self._root)
        return made


async def _unwritten(plan: Plan, value: Any) -> Handover:
    """Complete and check a result that the fast path cannot write, and hand it over."""
    try:
        return Handover(after_body=Outcome(await plan.tool.check_result(value)))
    except BaseException as error:  # noqa: BLE001  # even a SystemExit must end this call only
        return Handover(after_body=Outcome(error=body_error(error)))


class FastPath:
    """The path for tools with a call plan. `fallback` is the FastMCP path, which takes over unusual calls."""

    def __init__(self, mcp: FastMCP, state: Any, fallback: FastMcpPath, envelopes: Envelopes) -> None:
        self.mcp = mcp
        self.fallback = fallback
        self.bindings = Bindings(mcp, state)
        self.envelopes = envelopes

    def plan_for(self, call: Call, plans: Plans) -> Plan | DirectPlan | None:
        """Return the plan of the tool that a call names; return None if the FastMCP path must answer the call.

        A call that selects a version of a tool gets a direct plan. The FastMCP path answers further rounds of a
        multi-round tool, invalid calls, and calls of a tool that the caller may not use.
        """
        params = call.request.params
        if params is None:
            return None
        name, arguments = params.get("name"), params.get("arguments")
        if type(name) is not str or (arguments is not None and type(arguments) is not dict):
            return None
        if len(params) > 1 + ("arguments" in params) + ("_meta" in params):  # a member that only FastMCP knows
            return None
        plan = plans.tools.get(name) or plans.direct.get(name)
        if plan is None:
            return None
        caller: Caller | None = call.record.caller
        if caller is not None and not caller.may_use(name):
            return None
        meta = params.get("_meta")
        if meta is None:
            return plan
        if type(meta) is not dict or not self.envelopes.is_valid("tools/call", meta, call.version, call.request.size):
            return None
        return plans.direct.get(name) if "fastmcp" in meta else plan

    def answer(self, call: Call, plan: Plan) -> Awaitable[None]:
        """Answer a tool call. Awaiting the reply raises `ClientGone` if the client closes the connection.

        Awaiting the reply raises `Refused` if the tool needs the session and the call's session id is invalid. A tool
        without Context, dependencies and middleware does not need the session.
        """
        if not call.channel.is_open and plan.needs_session:
            return self._open_and_answer(call, plan)
        running = self._within_middleware(call, plan) if plan.middleware else self._plainly(call, plan)
        task = EagerTask(running, loop=asyncio.get_running_loop(), eager_start=True)
        if task.done():
            reply = task.result()
            return call.reply.finish(200, reply) if isinstance(reply, bytes) else self.fallback.answer(call, reply)
        return wait_for(call, task, plan.tool.name, plan.seconds, self.fallback)

    async def _open_and_answer(self, call: Call, plan: Plan) -> None:
        await self.answer(await call.channel.open(call), plan)

    async def _plainly(self, call: Call, plan: Plan) -> bytes | Handover:
        params = call.request.params or {}
        arguments: dict[str, Any] = params.get("arguments") or {}
        if len(arguments) > plan.parameters:  # the FastMCP path reports the unknown arguments
            return Handover()
        self.bindings[plan.server].bind(call)
        _set_deadline(time.monotonic() + plan.seconds)
        try:
            running = plan.call(arguments)
        except BaseException:  # noqa: BLE001  # the FastMCP path reports the invalid arguments
            return Handover()
        try:
            value = await running
        except BaseException as error:  # noqa: BLE001  # even a SystemExit must end this call only
            return Handover(after_body=Outcome(error=body_error(error)))
        try:
            written = plan.write(value)
        except Exception:  # noqa: BLE001  # the FastMCP path reports what is wrong with the value
            written = None
        if written is None:
            return await _unwritten(plan, value)
        text, content = written
        if content is None:
            return plan.templates.bare[call.version].fill(call.request.id, text, b"")
        return plan.structured[call.version].fill(call.request.id, text, content)

    async def _within_middleware(self, call: Call, plan: Plan) -> bytes | Handover:
        _set_deadline(time.monotonic() + plan.seconds)
        params = call.request.params or {}
        context: MiddlewareContext[Any] = MiddlewareContext(
            message=tool_params(plan.tool.name, params.get("arguments") or {}),
            source="client",
            type="request",
            method="tools/call",
            fastmcp_context=self.bindings[self.mcp].bind(call),
        )
        body = self._body if plan.server is self.mcp else self._mounted_body
        return await run_middleware(call, plan, context, partial(body, plan))

    async def _mounted_body(self, plan: Plan, context: MiddlewareContext[Any]) -> ToolResult:
        with self.bindings[plan.server].within():
            return await self._body(plan, context)

    async def _body(self, plan: Plan, context: MiddlewareContext[Any]) -> ToolResult:
        """Call the tool that the middleware passes on. This is the innermost step of the middleware chain.

        After an error, FastMCP's `call_tool` reports the outcome (`BODY_OUTCOME`), and the tool's function does not run
        again. For another tool or invalid arguments, `call_tool` does the whole work.
        """
        name, arguments = context.message.name, context.message.arguments or {}
        if name == plan.tool.name and len(arguments) <= plan.parameters:
            try:
                running = plan.call(arguments)
            except BaseException:  # noqa: BLE001
                running = None
            if running is not None:
                outcome = Outcome()
                try:
                    value = outcome.value = await running
                    if type(value) is not str or not value.isascii():
                        value = outcome.value = await plan.tool.check_result(value)
                    return plan.convert(value)
                except BaseException as error:  # noqa: BLE001
                    outcome.error = body_error(error)
                BODY_OUTCOME.set(outcome)
        return await self.mcp.call_tool(name, arguments, run_middleware=False)


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
        task = EagerTask(self._call(call, plan), loop=asyncio.get_running_loop(), eager_start=True)
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
        _set_deadline(time.monotonic() + plan.seconds)
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
