"""The job queue in Docket: one Docket function, with the job's id as its only argument.

Without JOBS_URL, a replica imports this module when it gets the first request for a job.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

from docket import Docket
from redis.asyncio import Redis
from redis.exceptions import RedisError

from anyreplica.features.jobs.settings import JobSettings
from anyreplica.features.jobs.store import Store
from anyreplica.shared.lost_redis import notice_losses

UNREACHABLE = (RedisError, OSError, TimeoutError)
"""Exceptions that a Redis client raises while Redis cannot be reached."""

RUN = "run_job"
"""Name of the Docket function. All versions of the worker must use the same name."""


class Backend:
    """The queue of jobs and the store of their records."""

    def __init__(self, docket: Docket, store: Store) -> None:
        self.docket = docket
        self.store = store

    async def ping(self) -> None:
        """Ask Redis for an answer; raise one of `UNREACHABLE` if there is none."""
        async with self.docket.redis() as redis:
            await cast("Redis", redis).ping()

    async def enqueue(self, identity: str) -> None:
        """Put a job into the queue. A job that is already in the queue stays as it is.

        Raises:
            TooFewCopies: too few copies of Redis have the job. The job may run all the same.
        """
        await self.docket.add(RUN, key=identity)(identity)
        await self.store.note_accepted(identity)

    async def enqueue_again(self, identity: str, seconds: float) -> None:
        """Put a job into the queue again; a worker runs the job after `seconds`."""
        when = datetime.now(UTC) + timedelta(seconds=seconds)
        await self.docket.replace(RUN, when=when, key=identity)(identity)
        await self.store.note_queued(identity)


async def _not_here(identity: str) -> None:
    """Stand in for the Docket function in a process without a worker."""
    raise NotImplementedError(identity)


@asynccontextmanager
async def opened(settings: JobSettings) -> AsyncIterator[Backend]:
    """Connect to the queue; raise RedisError or OSError if Redis cannot be reached."""
    logging.getLogger("docket").setLevel(logging.WARNING)  # the runner logs each job itself
    url = settings.jobs_url.get_secret_value()
    if not settings.jobs_in_process:
        # After an outage of Redis, each open connection raises an error at its next use. redis-py then retries the
        # command on a new connection. Without this retry a worker could not start its job, and the job would wait for
        # JOBS_REDELIVERY_SECONDS.
        url += ("&" if "?" in url else "?") + "retry_on_timeout=true"
    # Nobody reads Docket's own data of a run after the run. Clients read the job's record.
    kept = timedelta(minutes=1)
    async with Docket(name=f"{settings.mcp_name}:jobs", url=url, execution_ttl=kept) as docket:
        docket.register(_not_here, names=[RUN])
        copies = 0  # a queue in memory has no copies
        if not settings.jobs_in_process:
            copies = settings.jobs_copies
            # Docket's connections for cancellations are in another pool, which does not change. Docket notices the loss
            # of such a connection later. A worker finds cancellations all the same: it reads the records of its running
            # jobs every few seconds.
            async with docket.redis() as redis:
                notice_losses(cast("Redis", redis).connection_pool)
        yield Backend(docket, Store(docket, settings.jobs_max_pending, settings.jobs_max_pending_bytes, copies))
