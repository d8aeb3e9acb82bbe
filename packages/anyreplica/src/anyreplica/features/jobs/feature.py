"""The feature *jobs*: functions with `@job`, and tools with `task=True`."""

import asyncio
import logging
import time
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from fastmcp import FastMCP
from fastmcp.tools import FunctionTool, Tool
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from anyreplica.components.containment import AsyncFunction
from anyreplica.components.discovery import Discovered
from anyreplica.components.importing import DiscoveryError
from anyreplica.components.job import JOB_TOOLS
from anyreplica.components.marks import Check
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.jobs.record import JobError
from anyreplica.features.jobs.routes import JobRoutes
from anyreplica.features.jobs.server_tasks import offer_tasks
from anyreplica.features.jobs.service import JobService, check_url
from anyreplica.features.jobs.settings import JobSettings
from anyreplica.features.jobs.task_bytes import TaskBytes
from anyreplica.features.jobs.tools import tools_of
from anyreplica.settings.extras import require_extra

if TYPE_CHECKING:
    from anyreplica.features.jobs.store import Counts

logger = logging.getLogger(__name__)

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
