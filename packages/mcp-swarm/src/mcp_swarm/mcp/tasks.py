"""The protocol's own way to jobs: the tasks extension (SEP-2663), for clients that declare it.

A call of a job's tool answers with a task, whose id is the job's; `tasks/get` tells of it, `tasks/cancel` cancels it.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, Literal, TypeVar

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.server.extensions import MethodBinding, ToolCallContinuation, ToolCallOutcome
from fastmcp.tools import ToolResult
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams, CallToolResult, RequestParams, Result
from mcp_types.jsonrpc import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import to_json

from mcp_swarm.auth.caller import may_use, owner_of
from mcp_swarm.jobs.errors import JobError
from mcp_swarm.jobs.record import LIFETIME, Record, iso
from mcp_swarm.jobs.service import Desk
from mcp_swarm.mcp._sdk import LeavesToolsAlone

T = TypeVar("T")

EXTENSION = "io.modelcontextprotocol/tasks"

_POLL_MS = 500
_VERSIONS = frozenset(MODERN_PROTOCOL_VERSIONS)
_STATUS = {"pending": "working", "running": "working"}


class TaskParams(RequestParams):
    """Of `tasks/get` and `tasks/cancel`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    task_id: str


class UpdateParams(TaskParams):
    """Of `tasks/update`."""

    input_responses: dict[str, Any]


class Task(Result):
    """A task as the extension tells of it; what is None is left out."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    result_type: Literal["task", "complete"]
    task_id: str
    status: str
    created_at: str | None
    last_updated_at: str | None
    ttl_ms: int
    poll_interval_ms: int = _POLL_MS
    status_message: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class Done(Result):
    """An acknowledgement."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    result_type: Literal["complete"] = "complete"


class JobTasks(LeavesToolsAlone):
    """The extension over the desk. It takes part in calls of jobs' tools only."""

    identifier = EXTENSION

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def methods(self) -> Sequence[MethodBinding]:
        """The extension's own methods."""
        return [
            MethodBinding("tasks/get", TaskParams, self._get, _VERSIONS),
            MethodBinding("tasks/update", UpdateParams, self._update, _VERSIONS),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, _VERSIONS),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Make a task of a job's call, if the caller can follow one."""
        request = context.request_context
        if (
            params.name not in self.desk.jobs
            or request is None
            or request.protocol_version not in _VERSIONS
            or context.client_extension_settings(EXTENSION) is None
            or request.request is None
            or not may_use(request.request.scope, params.name)
        ):
            return await call_next()
        try:
            record = await self.desk.submit(owner_of(request.request.scope), params.name, params.arguments or {})
        except JobError as error:
            raise ToolError(str(error)) from None
        return _task(record, "task")

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Task:
        owner = self._checked(ctx, params)
        record, value = await _told(self.desk.result(owner, params.task_id))
        task = _task(record, "complete")
        if record.state == "completed":
            result = result_of(value)
            task.result = CallToolResult(
                content=result.content, structured_content=result.structured_content
            ).model_dump(by_alias=True, mode="json", exclude_none=True)
        elif record.state == "failed":
            task.error = {"code": INTERNAL_ERROR, "message": record.error}
        return task

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> Done:
        """Jobs ask for no input, and answers to what nobody asked are ignored."""
        owner = self._checked(ctx, params)
        await _told(self.desk.status(owner, params.task_id))
        return Done()

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Done:
        owner = self._checked(ctx, params)
        await _told(self.desk.cancel(owner, params.task_id))
        return Done()

    def _checked(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> str:
        """Who asks.

        Raises:
            MCPError: the caller didn't declare the extension, or its Mcp-Name header names another task.
        """
        if self.client_settings(ctx) is None:
            text = f"Declare the extension {EXTENSION} in the request's clientCapabilities."
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, text, data)
        request = ctx.request
        named = request.headers.get(MCP_NAME_HEADER) if request is not None else None
        if named is not None and decode_header_value(named) != params.task_id:
            raise MCPError(HEADER_MISMATCH, f"The header {MCP_NAME_HEADER} names another task than the body.")
        return owner_of(request.scope) if request is not None else owner_of({})


def result_of(value: Any) -> ToolResult:
    """A job's value as the result of a tool call; an object is structured content as well."""
    text = value if isinstance(value, str) else to_json(value).decode()
    return ToolResult(content=text, structured_content=value if isinstance(value, dict) else None)


def _task(record: Record, kind: Literal["task", "complete"]) -> Task:
    return Task(
        result_type=kind,
        task_id=record.id,
        status=_STATUS.get(record.state, record.state),
        created_at=iso(record.submitted),
        last_updated_at=iso(record.finished or record.started or record.submitted),
        ttl_ms=round((record.kept if record.is_finished else LIFETIME) * 1000),
        status_message=record.error or _said(record),
    )


def _said(record: Record) -> str | None:
    """How far it is, for people."""
    if record.state != "running":
        return record.message or None
    return f"{record.progress:g} %" + (f": {record.message}" if record.message else "")


async def _told(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except JobError as error:
        code = INVALID_PARAMS if error.status == 404 else INTERNAL_ERROR
        raise MCPError(code, str(error)) from None
