"""The tools through which MCP clients use jobs, and the tasks extension of the protocol (SEP-2663).

There is one tool per job, and there are four general tools for all jobs. If the client declares the extension, a call
of a job's own tool returns a task. The task has the id of the job. `tasks/get` returns the status and the result of the
task, and `tasks/cancel` cancels it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.server.extensions import MethodBinding, ServerExtension, ToolCallContinuation, ToolCallOutcome
from fastmcp.tools import FunctionTool, Tool, ToolResult
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
    ToolAnnotations,
)
from mcp_types.jsonrpc import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field, PrivateAttr
from pydantic_core import to_json
from starlette.types import Scope

from anyreplica.auth.caller import may_use, owner_of
from anyreplica.components.job import Job
from anyreplica.components.outcome import InterceptedTool, PlannedTool
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


_RUNS_AS_JOB = (
    "Runs as a job. If the job does not end soon, the reply has the job's id and status instead of the result. "
    "Then call job_status with the id to follow the job, and job_result to get the result."
)

JOB_MARK = "anyreplica/job"
"""The key in the `_meta` of a tool that runs as a job. The console finds the jobs by it."""

Identity = Annotated[str, Field(description="The job's id, from the reply of submit_job or of the job's own tool.")]


def tools_of(service: JobService) -> list[Tool]:
    """Return the tools for a service's jobs; return no tools if jobs are off."""
    return [] if service.off else [*(JobTool.of(job, service) for job in service.jobs.values()), *_general(service)]


class JobTool(InterceptedTool):
    """A job's own tool: it submits the job and waits for the result.

    The wait ends after JOBS_WAIT_SECONDS, or after half of CALL_TIMEOUT_SECONDS if that is shorter.
    If the job takes longer, the reply has the job's id. A client that declares the tasks extension gets a task instead
    (see `JobTasks`).
    """

    _service: JobService = PrivateAttr()

    @classmethod
    def of(cls, job: Job, service: JobService) -> "JobTool":
        text = f"{job.description}\n\n{_RUNS_AS_JOB}"
        tool = cls(name=job.name, description=text.strip(), parameters=dict(job.schema), meta={JOB_MARK: True})
        tool._service = service
        return tool

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Submit the job, wait for it, and return its result or its status.

        Raises:
            ToolError: the job cannot be submitted, or it failed or was cancelled.
        """
        service, owner = self._service, _owner(get_context())
        # Return before the call's time limit ends, so that the client gets the job's id.
        seconds = min(service.settings.jobs_wait_seconds, service.settings.call_timeout_seconds / 2)
        record = await with_tool_error(service.submit(owner, self.name, arguments))
        record = await with_tool_error(service.finished(owner, record, seconds))
        if record.state == "completed":
            _, value = await with_tool_error(service.result(owner, record.id))
            return result_of(value)
        if record.is_finished:
            raise ToolError(f"{self.name}: {record.error or record.state}")
        text = (
            f"The job is still {record.state} after {seconds:g} s. "
            f"Call job_status or job_result with job_id {record.id!r}."
        )
        return ToolResult(content=text, structured_content=record.status())


def _general(service: JobService) -> list[Tool]:
    async def submit_job(
        ctx: Context,
        job: Annotated[str, Field(description="Name of the job, which is also the name of its own tool.")],
        arguments: Annotated[
            dict[str, Any], Field(description="Arguments of the job, by name, as in the input schema of its own tool.")
        ] = {},  # noqa: B006
        idempotency_key: Annotated[
            str | None,
            Field(
                description="Optional text of 1 to 255 characters that makes a retry safe: a second submission with "
                "the same key starts no new job and returns the first one."
            ),
        ] = None,
    ) -> dict[str, Any]:
        """Start a job and return its id and status at once, without waiting for the result.

        Use this tool for work that may take minutes. A job is a tool with the words "Runs as a job" in its description.
        After this call, call job_status with the id until the status is completed, failed or cancelled. Then call
        job_result.
        """
        allowed = partial(may_use, _scope(ctx))
        submitted = service.submit(_owner(ctx), job, arguments, idempotency_key, allowed=allowed)
        return (await with_tool_error(submitted)).status()

    async def job_status(ctx: Context, job_id: Identity) -> dict[str, Any]:
        """Return the status of a job. Use this tool to follow a job until it ends.

        Returns the status (pending, running, completed, failed or cancelled), the progress in percent (0 to 100), the
        last progress message, the times of submission, start and end, the estimated end, the number of attempts, and
        the error of a failed job.
        """
        return (await with_tool_error(service.status(_owner(ctx), job_id))).status()

    async def job_result(ctx: Context, job_id: Identity) -> dict[str, Any]:
        """Return the result of a completed job. Use this tool after job_status returned the status completed.

        Returns the job's status and its result in the field result. While the job is pending or running, returns the
        status without a result. If the job failed or was cancelled, returns an error.
        """
        record, value = await with_tool_error(service.result(_owner(ctx), job_id))
        if record.state in ("failed", "cancelled"):
            raise ToolError(f"{record.job}: {record.error or record.state}")
        return {**record.status(), "result": value} if record.state == "completed" else record.status()

    async def cancel_job(ctx: Context, job_id: Identity) -> dict[str, Any]:
        """Cancel a job that has not ended. Use this tool when the result is no longer needed.

        Returns the job's status. A job that has already ended keeps its status and its result.
        """
        return (await with_tool_error(service.cancel(_owner(ctx), job_id))).status()

    reads = ToolAnnotations(read_only_hint=True)
    ends = ToolAnnotations(destructive_hint=True, idempotent_hint=True)
    tools: dict[Callable[..., Any], Any] = {submit_job: None, job_status: reads, job_result: reads, cancel_job: ends}
    return [PlannedTool(**dict(FunctionTool.from_function(each, annotations=hints))) for each, hints in tools.items()]


def _owner(ctx: Context) -> str:
    return owner_of(_scope(ctx))


def _scope(ctx: Context) -> Scope:
    request = ctx.request_context.request if ctx.request_context else None
    return request.scope if request is not None else {}
