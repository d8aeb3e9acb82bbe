"""Tools that run as tasks, under the names that the suite expects."""

import asyncio
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.extensions import ToolCallContinuation, ToolCallOutcome
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)


class AsksFirst(TasksExtension):
    """FastMCP's extension, and one tool that asks before its task begins.

    FastMCP's extension makes a task of each call of a tool with `task=True`, also of a call whose first round asks.
    """

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Begin the task of this tool when the client has answered. All other calls are FastMCP's."""
        if params.name != "test_tool_with_task":
            return await super().intercept_tool_call(params, context, call_next)
        name = _answered(context, "user_name", "name")
        if name is None:
            return InputRequiredResult(input_requests={"user_name": _form("What is your name?", name="string")})
        given = params.model_copy(update={"arguments": {"name": name}})
        return await super().intercept_tool_call(given, context, call_next)


async def greet(name: str) -> str:
    """Return a greeting."""
    return f"Hello, {name}!"


async def slow_compute(seconds: float = 0, label: str = "") -> str:
    """Return a result after some seconds."""
    await asyncio.sleep(seconds)
    return f"{label}: done after {seconds:g} s"


async def failing_job() -> str:
    """Fail."""
    raise ToolError("This job always fails.")


async def protocol_error_job() -> str:
    """Fail with an error of the protocol."""
    raise MCPError(INTERNAL_ERROR, "This job always ends with an error of the protocol.")


async def confirm_delete(ctx: Context, filename: str = "file") -> str | InputRequiredResult:
    """Ask for a confirmation."""
    if _answered(ctx, "confirm", "confirm") is None:
        return InputRequiredResult(input_requests={"confirm": _form(f"Delete {filename}?", confirm="boolean")})
    return f"{filename} was deleted."


async def multi_input(ctx: Context) -> str | InputRequiredResult:
    """Ask two questions at once."""
    if not {"first", "second"} <= (ctx.input_responses or {}).keys():
        asked = {"first": _form("First name?", name="string"), "second": _form("Second name?", name="string")}
        return InputRequiredResult(input_requests=asked)
    return "Both questions were answered."


async def test_tool_with_task(name: str) -> str:
    """Greet the user, whose name the client was asked for."""
    return f"Hello, {name}!"


def add_to(mcp: FastMCP[Any]) -> None:
    """Add the tools and the extension to a server."""
    mcp.add_extension(AsksFirst())
    mcp.tool(greet)
    required = TaskConfig(mode="required")
    for optional in (slow_compute, protocol_error_job, confirm_delete, multi_input):
        mcp.tool(optional, task=True)
    for always in (failing_job, test_tool_with_task):
        mcp.tool(always, task=required)


def _form(message: str, **types: str) -> ElicitRequest:
    properties = {name: {"type": kind} for name, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _answered(ctx: Context, key: str, field: str) -> Any:
    """Return the user's value of a form's field, or None without an accepted form."""
    answer = (ctx.input_responses or {}).get(key)
    return (answer.content or {}).get(field) if isinstance(answer, ElicitResult) else None
