"""The worker: takes jobs from the queue, at most JOBS_CONCURRENCY at a time, until it stops."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

from docket import Execution, Worker
from docket.docket import RedisMessage
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from anyreplica.components.job import Job
from anyreplica.features.jobs.backend import RUN, Backend
from anyreplica.features.jobs.runner import Runner
from anyreplica.features.jobs.settings import JobSettings

logger = logging.getLogger(__name__)

_CHECK = timedelta(milliseconds=50)
_RECONNECT = timedelta(seconds=1)
_LAST_SECONDS = 2.0
_BETWEEN_TRIES = 0.5
_TRIES = 24 * 3600 * 2  # retries for one day


class JobWorker:
    """A Docket worker that survives messages that it cannot read.

    Args:
        name: name of this process among the workers.
        cut: a function that ends the process. The worker calls it if a job, or Docket, does not stop.
    """

    def __init__(
        self, jobs: Mapping[str, Job], backend: Backend, settings: JobSettings, name: str, cut: Callable[[], None]
    ) -> None:
        self._backend = backend
        self._cut = cut
        self._runner = Runner(jobs, backend, settings)
        self._grace = settings.shutdown_grace_seconds
        backend.docket.register(self._runner.run, names=[RUN])
        self._worker = Worker(
            backend.docket,
            name=f"{name}#{secrets.token_hex(4)}",  # unique: a worker treats all jobs under its name as its own
            concurrency=settings.jobs_concurrency,
            redelivery_timeout=timedelta(seconds=settings.jobs_redelivery_seconds),
            reconnection_delay=_RECONNECT,
            minimum_check_interval=_CHECK,
            schedule_automatic_tasks=False,
        )

    def stop_claiming(self) -> None:
        """Take no more jobs. The running jobs continue, and no other worker takes them."""
        self._worker.concurrency = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run jobs inside the `async with` block.

        At the end of the block, the running jobs get SHUTDOWN_GRACE_SECONDS to finish. Jobs that need more time go back
        into the queue.
        """
        await self._outlast_outages()
        async with self._worker:
            task = asyncio.create_task(self._work())
            try:
                yield
            finally:
                self.stop_claiming()
                drained = await self._runner.drain(self._grace)
                task.cancel()
                done, _ = await asyncio.wait({task}, timeout=_LAST_SECONDS)
                if not (drained and done):  # a job does not end, or Docket waits for Redis, which cannot be reached
                    self._cut()

    async def _outlast_outages(self) -> None:
        """Make each Redis command retry until Redis can be reached again.

        Otherwise an outage of Redis would end the loop of Docket's worker. Before it restarts the loop, Docket waits
        for all running jobs, however long they take. In this time the worker would take no jobs. It would also not
        renew its claims on the running jobs, so other workers would take these jobs over.
        """
        async with self._backend.docket.redis() as redis:
            pool = getattr(redis, "connection_pool", None)  # a queue in memory has no pool
            if pool is not None:
                retry = Retry(ConstantBackoff(_BETWEEN_TRIES), _TRIES)
                pool.set_retry(retry)  # for the open connections
                pool.connection_kwargs.update(retry=retry)  # for new connections

    async def _work(self) -> None:
        while True:
            try:
                return await self._worker.run_forever()
            except Exception:
                logger.exception("Docket's worker failed and restarts; unreadable messages in the queue are dropped")
                try:
                    await self._drop_unreadable()
                except Exception:
                    logger.exception("Unreadable messages could not be dropped from the queue; the worker restarts")
                await asyncio.sleep(_RECONNECT.total_seconds())

    async def _drop_unreadable(self) -> None:
        """Remove the unreadable messages that this worker has taken from the queue.

        Otherwise each of these messages would stop every worker again and again.
        """
        docket = self._backend.docket
        async with docket.redis() as redis:
            group = docket.worker_group_name
            waiting = await redis.xpending_range(docket.stream_key, group, "-", "+", 1000, self._worker.name)
            for entry in waiting:
                identity = entry["message_id"]
                for _, message in await redis.xrange(docket.stream_key, identity, identity):
                    try:
                        await Execution.from_message(docket, message, message_id=identity, sync=False)
                    except Exception:  # noqa: BLE001  # unpickling may raise any exception
                        await redis.xack(docket.stream_key, group, identity)
                        await redis.xdel(docket.stream_key, identity)
                        await self._fail_job_of(message)

    async def _fail_job_of(self, message: RedisMessage) -> None:
        """Log an unreadable message, and fail its job if the message still has the job's id."""
        identity = cast("Mapping[bytes, Any]", message).get(b"key", b"").decode(errors="replace")
        logger.error("Job %.100r: its message in the queue cannot be read and was dropped", identity)
        record = await self._backend.store.load(identity)
        if record is not None:
            text = "No worker can read the job's message in the queue; submit the job again."
            await self._backend.store.finish(record, "failed", error=text)
