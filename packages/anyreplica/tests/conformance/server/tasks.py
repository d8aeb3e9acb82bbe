"""Tools that run as tasks, under the names that the suite expects."""

import asyncio
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp import MCPError
from mcp_types import INTERNAL_ERROR, InputRequiredResult

from tests.conformance.pack.multi_round import answered, form


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
    if answered(ctx, "confirm", "confirm") is None:
        return InputRequiredResult(input_requests={"confirm": form(f"Delete {filename}?", confirm="boolean")})
    return f"{filename} was deleted."


async def multi_input(ctx: Context) -> str | InputRequiredResult:
    """Ask two questions at once."""
    if not {"first", "second"} <= (ctx.input_responses or {}).keys():
        asked = {"first": form("First name?", name="string"), "second": form("Second name?", name="string")}
        return InputRequiredResult(input_requests=asked)
    return "Both questions were answered."


async def test_tool_with_task(ctx: Context) -> str | InputRequiredResult:
    """Ask for the name of the user, and greet the user."""
    name = answered(ctx, "user_name", "name")
    if name is None:
        return InputRequiredResult(input_requests={"user_name": form("What is your name?", name="string")})
    return f"Hello, {name}!"


def add_to(mcp: FastMCP[Any]) -> None:
    """Add the tools and the extension to a server. The queue is one that only a single process could use."""
    mcp.add_extension(TasksExtension(url="memory://"))
    mcp.tool(greet)
    required = TaskConfig(mode="required")
    for optional in (slow_compute, protocol_error_job, confirm_delete, multi_input):
        mcp.tool(optional, task=True)
    for always in (failing_job, test_tool_with_task):
        mcp.tool(always, task=required)
