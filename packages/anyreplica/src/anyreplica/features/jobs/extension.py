"""The tasks extension of the protocol (SEP-2663), for clients that declare it.

A call of a job's own tool returns a task. The task has the id of the job. `tasks/get` returns the status and the result
of the task, and `tasks/cancel` cancels it.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, Literal, TypeVar

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.server.extensions import MethodBinding, ServerExtension, ToolCallContinuation, ToolCallOutcome
from fastmcp.tools import ToolResult
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    RequestParams,
    Result,
)
from mcp_types.jsonrpc import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import to_json

from anyreplica.auth.caller import may_use, owner_of
from anyreplica.features.jobs.record import LIFETIME, JobError, Record, iso
from anyreplica.features.jobs.service import JobService

T = TypeVar("T")

TASKS_EXTENSION = TASKS_EXTENSION_ID

_VERSIONS = frozenset(MODERN_PROTOCOL_VERSIONS)
_STATUS = {"pending": "working", "running": "working"}


class TaskParams(RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any]


class Task(Result):
    """A task in the form of the extension. Fields with the value None are left out."""

    result_type: Literal["task", "complete"]
    task_id: str
    status: str
    created_at: str | None
    last_updated_at: str | None
    ttl_ms: int
    poll_interval_ms: int = 500
    status_message: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class JobTasks(ServerExtension):
    """The tasks extension on top of the job service. It changes only the calls of jobs' own tools."""

    identifier = TASKS_EXTENSION

    def __init__(self, service: JobService) -> None:
        self.service = service

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self._get, _VERSIONS),
            MethodBinding("tasks/update", UpdateParams, self._update, _VERSIONS),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, _VERSIONS),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Submit a job and return a task, if the client declares the extension; otherwise call the tool."""
        request = context.request_context
        if (
            params.name not in self.service.jobs
            or request is None
            or request.protocol_version not in _VERSIONS
            or context.client_extension_settings(TASKS_EXTENSION) is None
            or request.request is None
            or not may_use(request.request.scope, params.name)
        ):
            return await call_next()
        submitted = self.service.submit(owner_of(request.request.scope), params.name, params.arguments or {})
        return _task(await with_tool_error(submitted), "task")

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Task:
        record, value = await _with_mcp_error(self.service.result(self._checked(ctx, params), params.task_id))
        task = _task(record, "complete")
        if record.state == "completed":
            given = result_of(value)
            result = CallToolResult(
                content=given.content, structured_content=given.structured_content, _meta=given.meta
            )
            task.result = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        elif record.state == "failed":
            task.error = {"code": INTERNAL_ERROR, "message": record.error}
        return task

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> EmptyResult:
        """Check that the task exists and ignore the input, because jobs ask for no input."""
        await _with_mcp_error(self.service.status(self._checked(ctx, params), params.task_id))
        return EmptyResult(result_type="complete")

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> EmptyResult:
        await _with_mcp_error(self.service.cancel(self._checked(ctx, params), params.task_id))
        return EmptyResult(result_type="complete")

    def _checked(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> str:
        """Check a request and return the owner of the jobs that it may use.

        Raises:
            MCPError: the client did not declare the extension, or the header Mcp-Name does not match the task's id.
        """
        if self.client_settings(ctx) is None:
            text = f"Declare the extension {TASKS_EXTENSION} in the request's clientCapabilities."
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, text, data)
        request = ctx.request
        named = request.headers.get(MCP_NAME_HEADER) if request is not None else None
        if named is not None and decode_header_value(named) != params.task_id:
            raise MCPError(HEADER_MISMATCH, f"The header {MCP_NAME_HEADER} does not match taskId in the body.")
        return owner_of(request.scope if request is not None else {})


def result_of(value: Any) -> ToolResult:
    """Convert a job's value to the result of a tool call, with structured content.

    Structured content must be an object. Any other value is put into an object, under the key `result`, as FastMCP does
    for the value of a tool.
    """
    text = value if isinstance(value, str) else to_json(value).decode()
    if isinstance(value, dict):
        return ToolResult(content=text, structured_content=value)
    return ToolResult(content=text, structured_content={"result": value}, meta={"fastmcp": {"wrap_result": True}})


def _task(record: Record, kind: Literal["task", "complete"]) -> Task:
    message = record.message
    if record.state == "running":
        message = f"{record.progress:g} %" + (f": {message}" if message else "")
    return Task(
        result_type=kind,
        task_id=record.id,
        status=_STATUS.get(record.state, record.state),
        created_at=iso(record.submitted),
        last_updated_at=iso(record.finished or record.started or record.submitted),
        ttl_ms=round((record.kept if record.is_finished else LIFETIME) * 1000),
        status_message=record.error or message or None,
    )


async def with_tool_error(request: Awaitable[T]) -> T:
    """Await a request to the job service; raise its JobError as a ToolError."""
    try:
        return await request
    except JobError as error:
        raise ToolError(str(error)) from None


async def _with_mcp_error(request: Awaitable[T]) -> T:
    """Await a request to the job service; raise its JobError as an MCPError."""
    try:
        return await request
    except JobError as error:
        code = INVALID_PARAMS if error.status == 404 else INTERNAL_ERROR
        raise MCPError(code, str(error)) from None
