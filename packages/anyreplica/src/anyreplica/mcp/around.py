"""The steps that the fast path and the direct path share: the middleware around a tool, and the reply."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastmcp.server.middleware import MiddlewareContext
from fastmcp.tools import ToolResult

from anyreplica.components.call_limits import out_of_time
from anyreplica.components.outcome import Handover, Outcome
from anyreplica.mcp.call import Call
from anyreplica.mcp.fastmcp_path import FastMcpPath
from anyreplica.mcp.plan import DirectPlan, Plan

CallTool = Callable[[MiddlewareContext[Any]], Awaitable[Any]]


async def run_middleware(
    call: Call, plan: Plan | DirectPlan, context: MiddlewareContext[Any], body: CallTool
) -> bytes | Handover:
    """Call a tool through the registered middleware, and return the response; or hand an unusual outcome over.

    Args:
        body: the innermost step, which calls the tool.
    """
    step = body
    for outer in reversed(plan.steps):
        step = partial(outer, call_next=step)
    try:
        result = await step(context)
    except BaseException as error:  # noqa: BLE001  # even a SystemExit must end this call only
        return Handover(after_middleware=Outcome(error=error))
    if type(result) is not ToolResult or result.is_error:
        return Handover(after_middleware=Outcome(result))
    try:
        return plan.templates.write(call.request.id, call.version, result)
    except Exception:  # noqa: BLE001  # the FastMCP path reports what is wrong with the result
        return Handover(after_middleware=Outcome(result))


def reply_to(call: Call, reply: bytes | Handover, fallback: FastMcpPath) -> Awaitable[None]:
    """Send the response, or let the FastMCP path write it."""
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
