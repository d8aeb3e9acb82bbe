"""The queue of long jobs, as all replicas see it."""

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mcp_swarm.jobs.errors import JobError
from mcp_swarm.jobs.service import JobService

if TYPE_CHECKING:
    from mcp_swarm.jobs.store import Counts

logger = logging.getLogger(__name__)

_FRESH = 5.0
"""Seconds for which a look at the queue is good: however many ask, Redis is asked this often."""


class QueueMetrics(Collector):
    """How many jobs wait and run, how long the oldest has waited, and how jobs ended.

    Nothing of a queue that can't be reached is told: a metric that is absent is seen, an old number isn't.
    """

    def __init__(self, service: JobService) -> None:
        self._service = service
        self._counts: Counts | None = None
        self._until = 0.0
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        """Ask Redis, if the last answer isn't good any more."""
        if self._service.off:
            return
        async with self._looking:
            if time.monotonic() < self._until:
                return
            try:
                self._counts = await self._service.counts()
            except JobError as error:
                logger.warning("Metrics without the queue of jobs: %s", error)
                self._counts = None
            self._until = time.monotonic() + _FRESH

    def collect(self) -> Iterator[Metric]:
        """What the last look saw."""
        counts = self._counts
        if counts is None:
            return
        yield GaugeMetricFamily("mcp_job_queue_depth", "Jobs that wait, in the whole fleet.", counts.waiting)
        yield GaugeMetricFamily("mcp_jobs_running", "Jobs that run, in the whole fleet.", counts.running)
        oldest = "How long the oldest of them has waited since it was submitted."
        yield GaugeMetricFamily("mcp_job_queue_age_seconds", oldest, counts.age)
        ended = CounterMetricFamily("mcp_jobs", "Jobs that have ended, in the whole fleet.", None, ("job", "state"))
        for (job, state), number in counts.ended.items():
            ended.add_metric((job, state), number)
        yield ended
