"""The tools that jobs are to MCP clients: one of each job's own, and four plain ones for any job."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.tools import FunctionTool, Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import Field, PrivateAttr

from mcp_swarm.auth.caller import may_use, owner_of
from mcp_swarm.components.job import Job
from mcp_swarm.components.outcome import PlannedTool
from mcp_swarm.jobs.errors import JobError
from mcp_swarm.jobs.service import Desk
from mcp_swarm.mcp.message import SUBMIT_JOB
from mcp_swarm.mcp.tasks import result_of

JOB_TOOLS = (SUBMIT_JOB, "job_status", "job_result", "cancel_job")
"""The names of the plain tools."""

T = TypeVar("T")

Identity = Annotated[str, Field(description="The id that submit_job gave")]


def tools_of(desk: Desk) -> list[Tool]:
    """The tools for a desk's jobs; none if it has none to offer."""
    return [] if desk.off else [*(JobTool.of(job, desk) for job in desk.jobs.values()), *_plain(desk)]


class JobTool(Tool):
    """A job's own tool: waits a moment for the result, and else says how to get it.

    A client that declares the tasks extension gets a task instead, from `mcp_swarm.mcp.tasks`.
    """

    _desk: Desk = PrivateAttr()

    @classmethod
    def of(cls, job: Job, desk: Desk) -> "JobTool":
        """The tool of a job."""
        told = f"{job.description}\n\nRuns as a job: a result that takes long is asked for with job_result."
        tool = cls(name=job.name, description=told.strip(), parameters=dict(job.schema))
        tool._desk = desk
        return tool

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Submit it, and wait for a moment.

        Raises:
            ToolError: it can't be submitted, or has failed.
        """
        desk, owner = self._desk, _owner(get_context())
        record = await _told(desk.submit(owner, self.name, arguments))
        seconds = desk.settings.jobs_wait_seconds
        record = await _told(desk.finished(owner, record, seconds))
        if record.state == "completed":
            _, value = await _told(desk.result(owner, record.id))
            return result_of(value)
        if record.is_finished:
            raise ToolError(f"{self.name}: {record.error or record.state}")
        status = record.status()
        text = f"Still {record.state} after {seconds:g} s. Ask job_status and job_result for job_id {record.id!r}."
        return ToolResult(content=text, structured_content=status)


def _plain(desk: Desk) -> list[Tool]:
    async def submit_job(
        ctx: Context,
        job: Annotated[str, Field(description="The job's name")],
        arguments: Annotated[dict[str, Any], Field(description="The job's arguments, by name")] = {},  # noqa: B006
        idempotency_key: Annotated[
            str | None, Field(description="The same key makes the same submission once only")
        ] = None,
    ) -> dict[str, Any]:
        """Submit a job, which may take minutes; returns its id at once.

        Jobs are the tools whose descriptions say that they run as a job.
        """
        allowed = partial(may_use, _scope(ctx))
        submitted = desk.submit(_owner(ctx), job, arguments, idempotency_key, allowed=allowed)
        return (await _told(submitted)).status()

    async def job_status(ctx: Context, job_id: Identity) -> dict[str, Any]:
        """Tell how far a job is: status, progress (0 to 100), message, times, attempts, error."""
        return (await _told(desk.status(_owner(ctx), job_id))).status()

    async def job_result(ctx: Context, job_id: Identity) -> dict[str, Any]:
        """Give a completed job's result; of one that isn't completed, its status only."""
        record, value = await _told(desk.result(_owner(ctx), job_id))
        if record.state in ("failed", "cancelled"):
            raise ToolError(f"{record.job}: {record.error or record.state}")
        return {**record.status(), "result": value} if record.state == "completed" else record.status()

    async def cancel_job(ctx: Context, job_id: Identity) -> dict[str, Any]:
        """Cancel a job that hasn't finished; tells what has become of it."""
        return (await _told(desk.cancel(_owner(ctx), job_id))).status()

    reads = ToolAnnotations(read_only_hint=True)
    return [
        _tool(submit_job),
        _tool(job_status, annotations=reads),
        _tool(job_result, annotations=reads),
        _tool(cancel_job, annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=True)),
    ]


def _tool(function: Callable[..., Any], **settings: Any) -> Tool:
    return PlannedTool(**dict(FunctionTool.from_function(function, **settings)))


def _owner(ctx: Context) -> str:
    return owner_of(_scope(ctx))


def _scope(ctx: Context) -> Mapping[str, Any]:
    request = ctx.request_context.request if ctx.request_context else None
    return request.scope if request is not None else {}


async def _told(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except JobError as error:
        raise ToolError(str(error)) from None
