"""Where jobs are submitted, asked for and cancelled, whoever asks: the protocol's tasks, plain tools, REST."""

import asyncio
import hashlib
import json
import logging
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from mcp_swarm.components.job import Job
from mcp_swarm.jobs import errors
from mcp_swarm.jobs.link import Link
from mcp_swarm.jobs.record import Record
from mcp_swarm.settings import Settings
from mcp_swarm.shared.lost_redis import reason
from mcp_swarm.tracing import parent

if TYPE_CHECKING:
    from mcp_swarm.jobs.backend import Backend
    from mcp_swarm.jobs.store import Counts

logger = logging.getLogger(__name__)

PAGE = 50
"""Jobs of a list, unless its caller asks for fewer or more."""

_ANSWER_SECONDS = 2.0
"""Time for Redis to answer; then callers are told to try again."""
_KEY_LENGTH = 255
_FIRST_LOOK, _LAST_LOOK = 0.05, 0.5


class JobService:
    """Takes jobs, and tells of them to those who submitted them.

    Without JOBS_URL nothing of the queue is imported or connected before the first job: a replica that gets none pays
    nothing. With it the import is part of the start. It takes a second, or five on a busy node, and the first caller
    who asked for a job would have waited for it.

    What asks the queue raises JobError if there is none, it can't be reached, or its owner has no such job. `name` is
    this process's among the workers; `cut` ends the process regardless, within a moment.
    """

    def __init__(self, jobs: Mapping[str, Job], settings: Settings, name: str, cut: Callable[[], None]) -> None:
        self.jobs = jobs
        self.settings = settings
        self.off = ""
        """Why jobs can't be had, in a sentence; empty if they can. It changes with the number of replicas."""
        self.follow(settings.mcp_replicas)
        self._name = name
        self._cut = cut
        self._link = Link(self._open)

    def follow(self, replicas: int) -> None:
        """Take jobs, or take none, as is right for so many replicas."""
        if not self.jobs:
            self.off = "This server has no jobs."
        elif self.settings.jobs_in_process and replicas > 1:
            self.off = f"Jobs of {replicas} replicas need a Redis that they share: set JOBS_URL=redis://…"
        else:
            self.off = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve meanwhile. A worker in this process starts with the first job, if there is no Redis."""
        if self.jobs and not self.settings.jobs_in_process:
            await asyncio.to_thread(_modules)
        try:
            yield
        finally:
            await self._link.close()

    async def submit(
        self,
        owner: str,
        name: str,
        arguments: Mapping[str, Any],
        idempotency_key: str | None = None,
        *,
        allowed: Callable[[str], bool] = lambda _: True,
    ) -> Record:
        """Take a job; or, for a key that its owner used before, give the one that it made then.

        A job whose name isn't `allowed` doesn't exist for the caller.

        Raises:
            JobError: no such job, arguments that don't fit, a key used for something else, a full queue, no queue.
        """
        if idempotency_key is not None and not 1 <= len(idempotency_key) <= _KEY_LENGTH:
            raise errors.invalid(f"An Idempotency-Key has 1 to {_KEY_LENGTH} characters.")
        job, text = self._checked(name, arguments, allowed)
        record = Record(
            id=secrets.token_urlsafe(24),
            job=name,
            owner=owner,
            submitted=time.time(),
            digest=hashlib.sha256(f"{name}\n{text}".encode()).hexdigest(),
            kept=job.meta.retention or self.settings.jobs_retention_seconds,
            traceparent=parent.current(),
        )
        async with self._queue() as backend:
            identity = await backend.store.create(record, text, idempotency_key)
            if identity is None:
                raise errors.JobError(429, "queue_full", "Too many jobs are waiting; try again later.", retry_after=5)
            if identity == record.id:
                await backend.enqueue(identity)
                return record
            earlier = await backend.store.load(identity)
            if earlier is None:  # it went between the two looks
                raise errors.unavailable()
            if earlier.digest != record.digest:
                raise errors.JobError(409, "conflict", "This Idempotency-Key was used for another submission.")
            if earlier.state == "pending" and not earlier.queued:  # its submission was interrupted
                await backend.enqueue(identity)
            elif not earlier.is_finished:  # the first call may have failed before the copies had it
                await backend.store.note_accepted(identity)
            return earlier

    def _checked(self, name: str, arguments: Mapping[str, Any], allowed: Callable[[str], bool]) -> tuple[Job, str]:
        """The job of a name, and its arguments as JSON, the same for the same arguments."""
        if self.off:
            raise errors.JobError(503, "off", self.off)
        job = self.jobs.get(name)
        if job is None or not allowed(name):
            known = ", ".join(filter(allowed, sorted(self.jobs))) or "none"
            raise errors.invalid(f"There is no job named {name!r}; there are: {known}.")
        try:
            job.check(arguments)
            return job, json.dumps(arguments, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, TypeError) as error:
            raise errors.invalid(f"{name}: {error}") from None

    async def status(self, owner: str, identity: str) -> Record:
        """A job of an owner's."""
        async with self._queue() as backend:
            return await _owned(backend, owner, identity)

    async def result(self, owner: str, identity: str) -> tuple[Record, Any]:
        """A job of an owner's, and its result if it is completed."""
        async with self._queue() as backend:
            record = await _owned(backend, owner, identity)
            if record.state != "completed":
                return record, None
            result = await backend.store.result(identity)
            if result is None:  # its time has come in between
                raise errors.not_found()
            return record, from_json(result)

    async def cancel(self, owner: str, identity: str) -> Record:
        """Cancel a job, if it hasn't finished; returns what has become of it."""
        async with self._queue() as backend:
            await backend.store.finish(await _owned(backend, owner, identity), "cancelled")
            record = await _owned(backend, owner, identity)
            if record.state == "cancelled":  # also if it was before: the signal may not have got through
                await backend.docket.cancel(identity)
            return record

    async def of(self, owner: str, limit: int = PAGE, after: str | None = None) -> tuple[list[Record], str | None]:
        """An owner's jobs, newest first, and where the page ended if there are more; `after` is where one ended."""
        try:
            async with self._queue() as backend:
                return await backend.store.of(owner, limit, after)
        except KeyError:
            raise errors.invalid("cursor: the job that it names is gone; begin with the first page.") from None

    async def counts(self) -> "Counts | None":
        """The jobs there are, of all callers; None of a queue in this process that hasn't had any yet."""
        if self.settings.jobs_in_process and not self._link.is_open:
            return None
        async with self._queue() as backend:
            return await backend.store.counts()

    async def finished(self, owner: str, record: Record, seconds: float) -> Record:
        """A job when it has finished, or after some time as it is then."""
        end, pause = time.monotonic() + seconds, _FIRST_LOOK
        while not record.is_finished and time.monotonic() < end:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_LOOK)
            record = await self.status(owner, record.id)
        return record

    @asynccontextmanager
    async def _queue(self) -> AsyncIterator["Backend"]:
        """The queue, for a moment; what keeps it from answering is told to the caller."""
        if self.off:
            raise errors.JobError(503, "off", self.off)
        if "mcp_swarm.jobs.worker" not in sys.modules:  # its import takes a second, in which other calls go on
            await asyncio.to_thread(_modules)
        module, _ = _modules()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                yield await self._link.get()
        except module.UNREACHABLE as error:
            logger.warning("The job queue at JOBS_URL failed: %s", reason(error))
            raise errors.unavailable() from None

    @asynccontextmanager
    async def _open(self) -> AsyncIterator["Backend"]:
        backend, worker = _modules()
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(backend.opened(self.settings))
            if self.settings.jobs_in_process:
                own = worker.JobWorker(self.jobs, opened, self.settings, self._name, self._cut)
                await stack.enter_async_context(own.running())
            yield opened


def _modules() -> tuple[Any, Any]:
    from mcp_swarm.jobs import backend, worker  # noqa: PLC0415  # which take a second and 20 MB

    return backend, worker


async def _owned(backend: "Backend", owner: str, identity: str) -> Record:
    record = await backend.store.load(identity)
    if record is None or record.owner != owner:
        raise errors.not_found()
    return record
