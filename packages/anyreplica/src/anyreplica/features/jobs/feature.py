"""The feature *jobs*: functions with `@job`, and tools with `task=True`.

`/jobs` has jobs over plain HTTP, for clients that do not use MCP:

| request | reply |
| --- | --- |
| `POST /jobs` `{"job": …, "params": {…}}` | 202, `Location`, status; with an `Idempotency-Key` a retry is safe |
| `GET /jobs?limit=50&cursor=…` | 200, the jobs of the caller, newest first |
| `GET /jobs/{id}` or `/jobs/{id}/status` | 200, status |
| `GET /jobs/{id}/result` | 200, result; 202 before the end of the job; 409 if the job failed or was cancelled |
| `DELETE /jobs/{id}` | 200, status: cancelled, or the final state of a job that has already finished |
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from fastmcp.tools import FunctionTool, Tool
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anyreplica.auth.caller import may_use, owner_of
from anyreplica.components import problems
from anyreplica.components.containment import AsyncFunction
from anyreplica.components.discovery import Discovered
from anyreplica.components.importing import DiscoveryError
from anyreplica.components.job import JOB_TOOLS
from anyreplica.components.marks import Check
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.jobs.record import JobError, TaskBytes, invalid
from anyreplica.features.jobs.server_tasks import offer_tasks
from anyreplica.features.jobs.service import PAGE, JobService, check_url
from anyreplica.features.jobs.settings import JobSettings
from anyreplica.features.jobs.tools import tools_of
from anyreplica.http.request_limits import RequestLimits
from anyreplica.http.request_record import LONGEST, record_of
from anyreplica.http.responses import ClientGone, Refused
from anyreplica.mcp.message import LONGEST_NAME, memory_of
from anyreplica.settings.errors import require_extra

if TYPE_CHECKING:
    from anyreplica.features.jobs.store import Counts

logger = logging.getLogger(__name__)

_LONGEST_PAGE = 500

Endpoint = Callable[[Request, str], Awaitable[Response]]
"""Answers a request. The second argument is the owner of the jobs."""


class Submission(BaseModel):
    """The body of `POST /jobs`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    job: str
    params: dict[str, Any] = {}


@dataclass
class JobRoutes:
    """The endpoints of `/jobs`.

    `limits` first checks Host and Origin, so that a page in a browser cannot submit jobs to a server on a loopback
    address. Then it applies the limits.
    """

    service: JobService
    limits: RequestLimits

    def routes(self) -> list[Route]:
        """Return a route for each path and method."""
        table = [
            ("POST", "/jobs", self._submit),
            ("GET", "/jobs", self._list),
            ("GET", "/jobs/{id}", self._status),
            ("DELETE", "/jobs/{id}", self._cancel),
            ("GET", "/jobs/{id}/status", self._status),
            ("GET", "/jobs/{id}/result", self._result),
        ]
        return [Route(path, self._answering(endpoint), methods=[method]) for method, path, endpoint in table]

    async def _submit(self, request: Request, owner: str) -> Response:
        declared = request.headers.get("content-length")
        sent = await self.limits.body.read(request.receive, declared.encode() if declared else None)
        try:
            wanted = Submission.model_validate_json(sent)
        except ValidationError as error:
            text = f'{problems.describe_validation_error(error, "body")}. Send {{"job": "name", "params": {{…}}}}.'
            return _error(400, "bad_request", text)
        if len(wanted.job) > LONGEST_NAME:
            return _error(400, "bad_request", f"job: the name is too long; the limit is {LONGEST_NAME} characters.")
        key = request.headers.get("idempotency-key")
        record_of(request.scope).called = ("", wanted.job[:LONGEST])
        for observe in self.limits.on_call:
            observe(request.scope, {"arguments": wanted.params})
        allowed = partial(may_use, request.scope)
        release = await self.limits.acquire(self.limits.in_flight, request.scope, wanted.job, None, memory_of(sent))
        try:
            record = await self.service.submit(owner, wanted.job, wanted.params, key, allowed=allowed)
        finally:
            release()
        return JSONResponse(record.status(), 202, {"Location": f"/jobs/{record.id}/status"})

    async def _list(self, request: Request, owner: str) -> Response:
        limit = request.query_params.get("limit", str(PAGE))
        if not re.fullmatch(r"[0-9]{1,3}", limit) or not 1 <= int(limit) <= _LONGEST_PAGE:
            raise invalid(f"limit: must be a number from 1 to {_LONGEST_PAGE}.")
        records, after = await self.service.of(owner, int(limit), request.query_params.get("cursor"))
        return JSONResponse({"jobs": [record.status() for record in records], "next_cursor": after})

    async def _status(self, request: Request, owner: str) -> Response:
        return JSONResponse((await self.service.status(owner, request.path_params["id"])).status())

    async def _result(self, request: Request, owner: str) -> Response:
        record, value = await self.service.result(owner, request.path_params["id"])
        if record.state == "completed":
            return JSONResponse({**record.status(), "result": value})
        if record.is_finished:
            return JSONResponse(record.status(), 409)
        return JSONResponse(record.status(), 202, {"Retry-After": "1"})

    async def _cancel(self, request: Request, owner: str) -> Response:
        return JSONResponse((await self.service.cancel(owner, request.path_params["id"])).status())

    def _answering(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """Wrap an endpoint so that its errors and refusals become replies."""

        async def answer(request: Request) -> Response:
            try:
                limits = self.limits
                await limits.heads.check_source(request.scope, request.receive)
                if request.method == "POST":  # `_submit` reads the job's name and then calls `limits.acquire`
                    return await endpoint(request, owner_of(request.scope))
                release = await limits.acquire(limits.in_flight, request.scope, "", None, 0)
                try:
                    return await endpoint(request, owner_of(request.scope))
                finally:
                    release()
            except JobError as error:
                wait = {"Retry-After": str(error.retry_after)} if error.retry_after else None
                return _error(error.status, error.code, str(error), wait)
            except ClientGone:
                return Response(status_code=499)  # nobody reads this response; the status is for the log
            except Refused as refused:
                return _error(refused.status, "refused", refused.message, dict(refused.headers))

        return answer


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": code, "message": message}, status, headers)


_FRESH = 5.0
"""Seconds for which the numbers are reused. A replica asks Redis at most once in this time."""

_CHECK_SECONDS = 2.0
"""Time limit for the check of the queue in `/health/deep`, in seconds."""


class QueueMetrics(Collector):
    """Metrics of the waiting, running and ended jobs, and of the age of the oldest waiting job.

    While the queue cannot be reached, these metrics are absent. An alert can find an absent metric, but not an old
    number.
    """

    def __init__(self, service: JobService) -> None:
        self._service = service
        self._counts: Counts | None = None
        self._until = 0.0
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the numbers from Redis, if the last ones are older than 5 seconds."""
        if self._service.off:
            return
        async with self._reading:
            if time.monotonic() < self._until:
                return
            try:
                self._counts = await self._service.counts()
            except JobError as error:
                logger.warning("Job queue metrics are missing from this reply: %s", error)
                self._counts = None
            self._until = time.monotonic() + _FRESH

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics from the numbers that `refresh` read last."""
        counts = self._counts
        if counts is None:
            return
        yield GaugeMetricFamily("mcp_job_queue_depth", "Waiting jobs, over all replicas.", counts.waiting)
        yield GaugeMetricFamily("mcp_jobs_running", "Running jobs, over all workers.", counts.running)
        oldest = "Seconds since the oldest waiting job was submitted; 0 if no job waits."
        yield GaugeMetricFamily("mcp_job_queue_age_seconds", oldest, counts.age)
        ended = CounterMetricFamily("mcp_jobs", "Ended jobs by final state, over all workers.", None, ("job", "state"))
        for (job, state), number in counts.ended.items():
            ended.add_metric((job, state), number)
        yield ended


class Jobs(Feature):
    """Offers jobs as tools, as tasks of the protocol, and over plain HTTP."""

    settings: JobSettings

    @cached_property
    def _task_bytes(self) -> TaskBytes:
        return TaskBytes(self.settings.jobs_max_task_bytes)

    def wrap_tool(self, tool: FunctionTool, function: AsyncFunction) -> AsyncFunction:
        return self._task_bytes.limited(function) if tool.task_config.supports_tasks() else function

    def check_server(self, mcp: FastMCP, components: Discovered, replicas: int) -> None:
        tools = {item.component.name: item.where for item in components.components if isinstance(item.component, Tool)}
        for name in (*components.jobs, *(JOB_TOOLS if components.jobs else ())):
            if name in tools:
                text = f"{tools[name]}: tool {name!r} has the name of a job or a job tool; rename the tool"
                raise DiscoveryError(text)
            if name in JOB_TOOLS and name in components.jobs:
                raise DiscoveryError(f"Job {name!r}: anyreplica has a tool with this name; rename the job")

    def check(self) -> None:
        check_url(self.settings)

    def attach(self, replica: Replica) -> Parts:
        self.check()
        service = JobService(replica.components.jobs, self.settings, replica.name, replica.lifecycle.terminate)
        service.outside = replica.limits.in_flight.outside
        self._offer(replica.mcp, service)
        if service.jobs and service.off:
            logger.warning("%s", service.off)
        in_process = self.settings.jobs_in_process
        queue = QueueMetrics(service)
        return Parts(
            routes=JobRoutes(service, replica.limits).routes(),
            collectors=[queue],
            refresh=[queue.refresh],
            checks=[] if service.off or in_process else [Check("jobs", service.counts, _CHECK_SECONDS)],
            running=[service.running()],
        )

    def add_tools(self, mcp: FastMCP, components: Discovered) -> None:
        self._offer(mcp, JobService(components.jobs, self.settings, "", lambda: None))

    def _offer(self, mcp: FastMCP, service: JobService) -> None:
        if service.jobs:
            require_extra("jobs", f"job {min(service.jobs)!r}")
        for tool in tools_of(service):
            mcp.add_tool(tool)
        offer_tasks(mcp, service, self.settings, self._task_bytes)
