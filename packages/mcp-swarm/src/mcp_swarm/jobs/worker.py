"""A worker: takes jobs from the queue, so many at a time, until it is told to stop."""

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

from mcp_swarm.components.job import Job
from mcp_swarm.jobs.backend import RUN, Backend
from mcp_swarm.jobs.runner import Runner
from mcp_swarm.settings import Settings

logger = logging.getLogger(__name__)

_CHECK = timedelta(milliseconds=50)
_RECONNECT = timedelta(seconds=1)
_LAST_SECONDS = 2.0
_BETWEEN_TRIES = 0.5
_TRIES = 24 * 3600 * 2  # for a day


class JobWorker:
    """Docket's worker, which survives what it can't read; `cut` ends the process when a job can't be stopped."""

    def __init__(
        self, jobs: Mapping[str, Job], backend: Backend, settings: Settings, name: str, cut: Callable[[], None]
    ) -> None:
        self._backend = backend
        self._cut = cut
        self._runner = Runner(jobs, backend, settings)
        self._grace = settings.shutdown_grace_seconds
        backend.docket.register(self._runner.run, names=[RUN])
        self._worker = Worker(
            backend.docket,
            name=f"{name}#{secrets.token_hex(4)}",  # two of one name would take each other's jobs for their own
            concurrency=settings.jobs_concurrency,
            redelivery_timeout=timedelta(seconds=settings.jobs_redelivery_seconds),
            reconnection_delay=_RECONNECT,
            minimum_check_interval=_CHECK,
            schedule_automatic_tasks=False,
        )

    def take_no_more(self) -> None:
        """Take no more jobs; those that run go on, and stay this worker's."""
        self._worker.concurrency = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work meanwhile; then finish what runs within the grace, and give back the rest."""
        await self._outlast_outages()
        async with self._worker:
            task = asyncio.create_task(self._work())
            try:
                yield
            finally:
                self.take_no_more()
                drained = await self._runner.drain(self._grace)
                task.cancel()
                done, _ = await asyncio.wait({task}, timeout=_LAST_SECONDS)
                if not (drained and done):  # a job that doesn't end, or Redis is away, to which Docket says goodbye
                    self._cut()

    async def _outlast_outages(self) -> None:
        """Let each command wait until Redis is back.

        Docket's worker would end its loop, and before it begins anew wait for all jobs that run, however long they
        take; it would take no other meanwhile, nor keep those from being taken for lost.
        """
        async with self._backend.docket.redis() as redis:
            pool = getattr(redis, "connection_pool", None)  # memory has none
            if pool is not None:
                retry = Retry(ConstantBackoff(_BETWEEN_TRIES), _TRIES)
                pool.set_retry(retry)  # of those that there are
                pool.update_connection_kwargs(retry=retry)  # of those to come

    async def _work(self) -> None:
        while True:
            try:
                return await self._worker.run_forever()
            except Exception:
                logger.exception("Docket's worker ended; if a message in the queue can't be read, it is dropped now")
                try:
                    await self._drop_unreadable()
                except Exception:
                    logger.exception("It goes on with it")
                await asyncio.sleep(_RECONNECT.total_seconds())

    async def _drop_unreadable(self) -> None:
        """Take out of the queue what can't be read, or every worker would stumble over it, again and again."""
        docket = self._backend.docket
        async with docket.redis() as redis:
            group = docket.worker_group_name
            waiting = await redis.xpending_range(docket.stream_key, group, "-", "+", 1000, self._worker.name)
            for entry in waiting:
                identity = entry["message_id"]
                for _, message in await redis.xrange(docket.stream_key, identity, identity):
                    try:
                        await Execution.from_message(docket, message, message_id=identity, sync=False)
                    except Exception:  # noqa: BLE001  # whatever unpickling raises
                        await redis.xack(docket.stream_key, group, identity)
                        await redis.xdel(docket.stream_key, identity)
                        await self._tell_of(message)

    async def _tell_of(self, message: RedisMessage) -> None:
        """Let the job fail whose message it was, as far as that can be seen."""
        identity = cast("Mapping[bytes, Any]", message).get(b"key", b"").decode(errors="replace")
        logger.error("Dropped from the queue, since it can't be read: %.100r", identity)
        record = await self._backend.store.load(identity)
        if record is not None:
            await self._backend.store.finish(record, "failed", error="its message in the queue can't be read")
