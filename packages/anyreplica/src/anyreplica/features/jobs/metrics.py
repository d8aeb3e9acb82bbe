"""Prometheus metrics of the job queue. Every replica reports the same numbers."""

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from anyreplica.features.jobs.errors import JobError
from anyreplica.features.jobs.service import JobService

if TYPE_CHECKING:
    from anyreplica.features.jobs.store import Counts

logger = logging.getLogger(__name__)

_FRESH = 5.0
"""Seconds for which the numbers are reused. A replica asks Redis at most once in this time."""


class QueueMetrics(Collector):
    """Metrics of the waiting, running and ended jobs, and of the age of the oldest waiting job.

    While the queue cannot be reached, these metrics are absent. An alert can find an absent metric, but not an old
    number.
    """

    def __init__(self, service: JobService) -> None:
        self._service = service
        self._counts: Counts | None = None
        self._until = 0.0
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        """Read the numbers from Redis, if the last ones are older than 5 seconds."""
        if self._service.off:
            return
        async with self._looking:
            if time.monotonic() < self._until:
                return
            try:
                self._counts = await self._service.counts()
            except JobError as error:
                logger.warning("Job queue metrics are missing from this reply: %s", error)
                self._counts = None
            self._until = time.monotonic() + _FRESH

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics from the numbers that `look` read last."""
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
