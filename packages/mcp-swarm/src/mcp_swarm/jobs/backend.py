"""Docket as jobs use it: one function, whose only argument is a job's id. Imported when the first job is asked for."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

from docket import Docket
from redis.asyncio import Redis
from redis.exceptions import RedisError

from mcp_swarm.jobs.store import Store
from mcp_swarm.settings import Settings
from mcp_swarm.shared.lost_redis import notice_losses

UNREACHABLE = (RedisError, OSError, TimeoutError)
"""What a Redis that is away raises."""

RUN = "run_job"
"""The name of the function, by which workers of all versions know it."""


class Backend:
    """The queue, and the records of what is in it."""

    def __init__(self, docket: Docket, store: Store) -> None:
        self.docket = docket
        self.store = store

    async def enqueue(self, identity: str) -> None:
        """Have a worker run a job; nothing happens to one that is in the queue already.

        It raises TooFewCopies if too few copies of Redis have it yet. The job may run all the same.
        """
        await self.docket.add(RUN, key=identity)(identity)
        await self.store.note_accepted(identity)

    async def enqueue_again(self, identity: str, seconds: float) -> None:
        """Have a worker run a job once more, in a while."""
        when = datetime.now(UTC) + timedelta(seconds=seconds)
        await self.docket.replace(RUN, when=when, key=identity)(identity)
        await self.store.note_queued(identity)


async def _not_here(identity: str) -> None:
    """Stands for the function where no worker is."""
    raise NotImplementedError(identity)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Backend]:
    """The queue, connected; raises RedisError or OSError if it can't be reached."""
    logging.getLogger("docket").setLevel(logging.WARNING)  # the runner tells of each job itself
    url = settings.jobs_url.get_secret_value()
    if not settings.jobs_in_process:
        # Once more, on a new connection: after Redis was away each of those that were open raises when it is used next,
        # and a worker that can't begin a job leaves it for JOBS_REDELIVERY_SECONDS.
        url += ("&" if "?" in url else "?") + "retry_on_timeout=true"
    # Docket's own notes of a run are of no use after it; the record has what callers ask for.
    kept = timedelta(minutes=1)
    async with Docket(name=f"{settings.mcp_name}:jobs", url=url, execution_ttl=kept) as docket:
        docket.register(_not_here, names=[RUN])
        copies = 0  # memory has none
        if not settings.jobs_in_process:
            copies = settings.jobs_copies
            # Docket's connections for cancellations are in another pool. They may notice later: workers look, too.
            async with docket.redis() as redis:
                notice_losses(cast("Redis", redis).connection_pool)
        yield Backend(docket, Store(docket, settings.jobs_max_pending, copies))
