"""The tools that jobs are to MCP clients: one of each job's own, and four plain ones for any job."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.tools import FunctionTool, Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import Field, PrivateAttr

from mcp_swarm.auth.caller import may_use, owner_of
from mcp_swarm.components.job import Job
from mcp_swarm.components.outcome import PlannedTool
from mcp_swarm.jobs.service import JobService
from mcp_swarm.mcp.message import SUBMIT_JOB
from mcp_swarm.mcp.tasks import result_of, told

JOB_TOOLS = (SUBMIT_JOB, "job_status", "job_result", "cancel_job")
"""The names of the plain tools."""

Identity = Annotated[str, Field(description="The id that submit_job gave")]


def tools_of(service: JobService) -> list[Tool]:
    """The tools for a service's jobs; none if it has none to offer."""
    return [] if service.off else [*(JobTool.of(job, service) for job in service.jobs.values()), *_plain(service)]


class JobTool(Tool):
    """A job's own tool: waits a moment for the result, and else says how to get it.

    A client that declares the tasks extension gets a task instead, from `mcp_swarm.mcp.tasks`.
    """

    _service: JobService = PrivateAttr()

    @classmethod
    def of(cls, job: Job, service: JobService) -> "JobTool":
        text = f"{job.description}\n\nRuns as a job: a result that takes long is asked for with job_result."
        tool = cls(name=job.name, description=text.strip(), parameters=dict(job.schema))
        tool._service = service
        return tool

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Submit it, and wait for a moment. Raises `ToolError` if it can't be submitted, or has failed."""
        service, owner = self._service, _owner(get_context())
        # Return before the call times out, so that the caller gets the job's id.
        seconds = min(service.settings.jobs_wait_seconds, service.settings.call_timeout_seconds / 2)
        record = await told(service.submit(owner, self.name, arguments))
        record = await told(service.finished(owner, record, seconds))
        if record.state == "completed":
            _, value = await told(service.result(owner, record.id))
            return result_of(value)
        if record.is_finished:
            raise ToolError(f"{self.name}: {record.error or record.state}")
        text = f"Still {record.state} after {seconds:g} s. Ask job_status and job_result for job_id {record.id!r}."
        return ToolResult(content=text, structured_content=record.status())


def _plain(service: JobService) -> list[Tool]:
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
        submitted = service.submit(_owner(ctx), job, arguments, idempotency_key, allowed=allowed)
        return (await told(submitted)).status()

    async def job_status(ctx: Context, job_id: Identity) -> dict[str, Any]:
        """Tell how far a job is: status, progress (0 to 100), message, times, attempts, error."""
        return (await told(service.status(_owner(ctx), job_id))).status()

    async def job_result(ctx: Context, job_id: Identity) -> dict[str, Any]:
        """Give a completed job's result; of one that isn't completed, its status only."""
        record, value = await told(service.result(_owner(ctx), job_id))
        if record.state in ("failed", "cancelled"):
            raise ToolError(f"{record.job}: {record.error or record.state}")
        return {**record.status(), "result": value} if record.state == "completed" else record.status()

    async def cancel_job(ctx: Context, job_id: Identity) -> dict[str, Any]:
        """Cancel a job that hasn't finished; tells what has become of it."""
        return (await told(service.cancel(_owner(ctx), job_id))).status()

    reads = ToolAnnotations(read_only_hint=True)
    ends = ToolAnnotations(destructive_hint=True, idempotent_hint=True)
    tools: dict[Callable[..., Any], Any] = {submit_job: None, job_status: reads, job_result: reads, cancel_job: ends}
    return [PlannedTool(**dict(FunctionTool.from_function(each, annotations=hints))) for each, hints in tools.items()]


def _owner(ctx: Context) -> str:
    return owner_of(_scope(ctx))


def _scope(ctx: Context) -> Mapping[str, Any]:
    request = ctx.request_context.request if ctx.request_context else None
    return request.scope if request is not None else {}
