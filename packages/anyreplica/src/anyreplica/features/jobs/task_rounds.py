"""Tools that only run as a task and ask their client first: the question belongs to the call, and then the task begins.

The rounds of a call come before its task (SEP-2663). FastMCP creates the task at once, and the client finds the
question in `tasks/get`. The conformance suite expects this of a tool with `task=True`, and it expects the rounds first
of a tool with `mode="required"`. Here FastMCP creates the task of such a tool, too, so each round runs once and on a
worker. If the first round soon asks, the client gets the question as the reply to its call. When it answers, the task
goes on, and the client gets the task.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastmcp import Context
from fastmcp.server.extensions import MethodBinding, ServerExtension, ToolCallContinuation, ToolCallOutcome
from fastmcp.tools import FunctionTool
from fastmcp.utilities.versions import VersionSpec
from mcp_types import CallToolRequestParams, InputRequiredResult

from anyreplica.components.asking import has_rounds
from anyreplica.features.jobs.extension import TASKS_EXTENSION
from anyreplica.mcp._sdk import selected_version

_STATE = "anyreplica.task:"
"""Begins the state between the rounds of such a call. The names of the tool and of the task follow. Clients see only a
sealed text."""
_FIRST_ROUND_SECONDS = 2.0
"""Time in which the first round must ask, in seconds. After this time the client gets the task."""
_FIRST_LOOK, _LAST_LOOK = 0.02, 0.1
"""Shortest and longest pause between two looks at the task, in seconds."""


class TaskRounds(ServerExtension):
    """FastMCP's tasks extension, with questions before the task.

    Args:
        tools: FastMCP's tasks extension of the server.
    """

    identifier = TASKS_EXTENSION

    def __init__(self, tools: ServerExtension) -> None:
        self.tools = tools

    def settings(self) -> dict[str, Any]:
        return self.tools.settings()

    def methods(self) -> Sequence[MethodBinding]:
        return self.tools.methods()

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        return self.tools.lifespan()

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Begin a task, or go on with the one whose question the client answers; otherwise call the tool."""
        from fastmcp_tasks import handlers  # noqa: PLC0415  # it takes 2 s to import
        from fastmcp_tasks.models import CreateTaskResult  # noqa: PLC0415

        state, own = context.request_state or "", _state_of(params.name)
        if state.startswith(own):  # not so if a middleware calls another tool
            task = state.removeprefix(own)
            answers = {
                key: each.model_dump(mode="json", by_alias=True, exclude_none=True)
                for key, each in (context.input_responses or {}).items()
            }
            await handlers.tasks_update(self.tools.server, task, answers)
            found = await handlers.tasks_get(self.tools.server, task)
            about = found.model_dump(exclude={"result_type", "result", "error", "input_requests"}, exclude_unset=True)
            return _question(found, own) or CreateTaskResult(**about)
        outcome = await self.tools.intercept_tool_call(params, context, call_next)
        if isinstance(outcome, CreateTaskResult) and await _asks_first(params, context):
            return await self._first_question(outcome.task_id, own) or outcome
        return outcome

    async def _first_question(self, task: str, own: str) -> InputRequiredResult | None:
        """Wait for the question of the first round. None: it does not ask, or not soon."""
        from fastmcp_tasks.handlers import tasks_get  # noqa: PLC0415  # see above

        pause, until = _FIRST_LOOK, time.monotonic() + _FIRST_ROUND_SECONDS
        while time.monotonic() < until:
            found = await tasks_get(self.tools.server, task)
            if found.status != "working":
                return _question(found, own)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_LOOK)
        return None


async def _asks_first(params: CallToolRequestParams, context: Context) -> bool:
    """Return whether the tool of a call only runs as a task, and is a multi-round tool."""
    version = selected_version(params.meta)
    tool = await context.fastmcp.get_tool(params.name, VersionSpec(eq=version) if version else None)
    if tool is None or tool.task_config.mode != "required":
        return False
    # For the tool of a mounted server, `tool` has no function of its own.
    tasks = await context.fastmcp.get_tasks()
    return any(isinstance(each, FunctionTool) and each.key == tool.key and has_rounds(each) for each in tasks)


def _state_of(tool: str) -> str:
    return f"{_STATE}{tool}:"


def _question(found: Any, state: str) -> InputRequiredResult | None:
    """Return what a task asks, from the result of `tasks/get`. None: it asks nothing now."""
    if found.status != "input_required":
        return None
    return InputRequiredResult(input_requests=found.input_requests, request_state=f"{state}{found.task_id}")
