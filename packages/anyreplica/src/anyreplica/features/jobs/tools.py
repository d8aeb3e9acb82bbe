"""The tools through which MCP clients use jobs: one tool per job, and four general tools for all jobs."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.tools import FunctionTool, Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import Field, PrivateAttr
from starlette.types import Scope

from anyreplica.auth.caller import may_use, owner_of
from anyreplica.components.job import Job
from anyreplica.components.outcome import InterceptedTool, PlannedTool
from anyreplica.features.jobs.extension import result_of, with_tool_error
from anyreplica.features.jobs.service import JobService

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
    (see `anyreplica.features.jobs.extension`).
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
