"""The job service: submits, reports and cancels jobs, for the tasks extension, the job tools and the REST routes."""

import asyncio
import hashlib
import json
import logging
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic_core import from_json

from anyreplica.components.job import Job
from anyreplica.features.jobs.record import JobError, Record, invalid, not_found, unavailable
from anyreplica.features.jobs.settings import JobSettings
from anyreplica.http import trace_context
from anyreplica.shared.lost_redis import reason
from anyreplica.shared.outage import RedisBreaker
from anyreplica.shared.redis import client_of

if TYPE_CHECKING:
    from anyreplica.features.jobs.backend import Backend
    from anyreplica.features.jobs.store import Counts


logger = logging.getLogger(__name__)

T = TypeVar("T")

PAGE = 50
"""Default number of jobs on one page of a list."""

_ANSWER_SECONDS = 2.0
"""Seconds to wait for Redis. After that the client gets an error and may retry. Until Redis answers again, the
breaker refuses further requests at once."""

_KEY_LENGTH = 255

_FIRST_POLL_SECONDS, _LAST_POLL_SECONDS = 0.05, 0.5


class Link(Generic[T]):
    """The value of an async context manager, opened at the first use and shared by many tasks.

    If the context manager fails to open, the next `get` makes a new context manager and opens it.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._make = make
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[T] | None = None

    @property
    def is_open(self) -> bool:
        """Whether `get` was called at least once."""
        return self._opened is not None

    async def get(self) -> T:
        """Return the value; open the context manager first if it is not open. After an error, the next call retries."""
        if self._opened is None or (self._opened.done() and self._opened.exception() is not None):
            loop = asyncio.get_running_loop()
            self._opened = loop.create_future()
            # The context variables of the current task belong to one request. This long-lived task must not keep them.
            self._task = loop.create_task(self._keep(self._opened), context=Context())
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """Close the context manager if it is open."""
        self._closing.set()
        if self._task is not None:
            await self._task

    async def _keep(self, opened: asyncio.Future[T]) -> None:
        try:
            async with self._make() as value:
                opened.set_result(value)
                await self._closing.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)
            opened.exception()  # otherwise asyncio logs the error if no task waits for the future any more


def check_url(settings: JobSettings) -> None:
    """Raise `StartupError` if `JOBS_URL` is not a valid URL."""
    if not settings.jobs_in_process:
        client_of("JOBS_URL", settings.jobs_url.get_secret_value())


class JobService:
    """The job service of a replica: accepts jobs, and reports on a job to the caller that submitted it.

    The modules of the queue take one second to import, or five seconds on a busy node. Without JOBS_URL, the replica
    imports them when the first job arrives. A replica without jobs then saves their time and memory. With JOBS_URL, the
    replica imports them at its start, so that no client waits.

    Every method that uses the queue raises JobError if jobs are off, if the queue cannot be reached, or if the owner
    has no such job.

    Args:
        name: name of this process among the workers.
        cut: a function that ends the process, even if a job still runs.
    """

    def __init__(self, jobs: Mapping[str, Job], settings: JobSettings, name: str, cut: Callable[[], None]) -> None:
        self.jobs = jobs
        self.settings = settings
        self.off = _why_off(jobs, settings)
        """The reason why jobs are off, as a sentence; empty if jobs are on."""
        self._name = name
        self._cut = cut
        self._link = Link(self._open)
        self._breaker = RedisBreaker("The job queue (JOBS_URL)", self._answers)
        self.outside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
        """Does not count the current request as one in flight inside the `async with` block."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the job service open inside the `async with` block.

        Without JOBS_URL, the first job starts a worker in this process.
        """
        if self.jobs and not self.settings.jobs_in_process:
            await asyncio.to_thread(_modules)
        try:
            yield
        finally:
            await self._breaker.stop()
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
        """Submit a job and return its record.

        If the owner used the idempotency key before, return the record of the job from that submission.

        Args:
            allowed: a function that returns whether the caller may use the job with this name. If not, the caller gets
                the same error as for an unknown job.

        Raises:
            JobError: there is no such job, the arguments are invalid, the key belongs to another submission, the queue
                is full or cannot be reached, or jobs are off.
        """
        if idempotency_key is not None and not 1 <= len(idempotency_key) <= _KEY_LENGTH:
            raise invalid(f"Idempotency-Key: the length must be 1 to {_KEY_LENGTH} characters.")
        job, text = self._checked(name, arguments, allowed)
        record = Record(
            id=secrets.token_urlsafe(24),
            job=name,
            owner=owner,
            submitted=time.time(),
            digest=hashlib.sha256(f"{name}\n{text}".encode()).hexdigest(),
            kept=job.meta.retention or self.settings.jobs_retention_seconds,
            traceparent=trace_context.current_traceparent(),
        )
        async with self._queue() as backend:
            identity = await backend.store.create(record, text, idempotency_key)
            if identity == record.id:
                await backend.enqueue(identity)
                return record
            earlier = await backend.store.load(identity)
            if earlier is None:  # the record was deleted between the two commands
                raise unavailable()
            if earlier.digest != record.digest:
                text = "This Idempotency-Key was used for another job or other arguments; use a new key."
                raise JobError(409, "conflict", text)
            if earlier.state == "pending" and not earlier.queued:  # the earlier submission was interrupted
                await backend.enqueue(identity)
            elif not earlier.is_finished:  # the first call may have failed before the copies of Redis had the job
                await backend.store.note_accepted(identity)
            return earlier

    def _checked(self, name: str, arguments: Mapping[str, Any], allowed: Callable[[str], bool]) -> tuple[Job, str]:
        """Check a submission; return its job and its arguments as JSON. Equal arguments give the same JSON."""
        if self.off:
            raise JobError(503, "off", self.off)
        job = self.jobs.get(name)
        if job is None or not allowed(name):
            known = ", ".join(filter(allowed, sorted(self.jobs))) or "none"
            raise invalid(f"There is no job named {name!r}. Available jobs: {known}.")
        try:
            job.check(arguments)
            return job, json.dumps(arguments, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, TypeError) as error:
            raise invalid(f"{name}: {error}") from None

    async def status(self, owner: str, identity: str) -> Record:
        """Return the record of an owner's job."""
        async with self._queue() as backend:
            return await _owned(backend, owner, identity)

    async def result(self, owner: str, identity: str) -> tuple[Record, Any]:
        """Return the record of an owner's job and its result. The result is None unless the job is completed."""
        async with self._queue() as backend:
            record = await _owned(backend, owner, identity)
            if record.state != "completed":
                return record, None
            result = await backend.store.result(identity)
            if result is None:  # the result expired between the two commands
                raise not_found()
            return record, from_json(result)

    async def cancel(self, owner: str, identity: str) -> Record:
        """Cancel a job if it has not ended. Return its current record in any case."""
        async with self._queue() as backend:
            await backend.store.finish(await _owned(backend, owner, identity), "cancelled")
            record = await _owned(backend, owner, identity)
            if record.state == "cancelled":
                # Send the signal again if an earlier request cancelled the job: the earlier signal may be lost.
                await backend.docket.cancel(identity)
            return record

    async def of(self, owner: str, limit: int = PAGE, after: str | None = None) -> tuple[list[Record], str | None]:
        """Return one page of an owner's jobs, newest first, and a cursor if there are more jobs.

        Args:
            limit: maximum number of jobs on the page.
            after: the cursor that came with the previous page.
        """
        try:
            async with self._queue() as backend:
                return await backend.store.of(owner, limit, after)
        except KeyError:
            raise invalid("cursor: the job at this position is deleted; start with the first page.") from None

    async def counts(self) -> "Counts | None":
        """Count the jobs of all callers; return None if the queue is in this process and was not used yet."""
        if self.settings.jobs_in_process and not self._link.is_open:
            return None
        async with self._queue(counted=False) as backend:
            return await backend.store.counts()

    async def finished(self, owner: str, record: Record, seconds: float) -> Record:
        """Wait until a job has ended, for at most `seconds`, and return its record."""
        end, pause = time.monotonic() + seconds, _FIRST_POLL_SECONDS
        while not record.is_finished and time.monotonic() < end:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_POLL_SECONDS)
            record = await self.status(owner, record.id)
        return record

    @asynccontextmanager
    async def _queue(self, *, counted: bool = True) -> AsyncIterator["Backend"]:
        """Open the queue for one operation; raise JobError if jobs are off or the queue cannot be reached.

        Args:
            counted: whether the operation belongs to a request that counts as one in flight.
        """
        if self.off:
            raise JobError(503, "off", self.off)
        # The import takes a second, and other calls must not wait for it.
        if "anyreplica.features.jobs.worker" not in sys.modules:
            await asyncio.to_thread(_modules)
        module, _ = _modules()
        if self._breaker.is_open:
            raise unavailable()
        try:
            async with self.outside() if counted else nullcontext(), asyncio.timeout(_ANSWER_SECONDS):
                yield await self._link.get()
        except module.UNREACHABLE as error:
            if isinstance(error, TimeoutError) and not self.settings.jobs_in_process:
                self._breaker.open()
            logger.warning("The job queue (JOBS_URL) failed: %s", reason(error))
            raise unavailable() from None

    async def _answers(self) -> bool:
        module, _ = _modules()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await (await self._link.get()).ping()
        except module.UNREACHABLE:
            return False
        return True

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
    from anyreplica.features.jobs import backend, worker  # noqa: PLC0415  # this import takes a second and 20 MB

    return backend, worker


async def _owned(backend: "Backend", owner: str, identity: str) -> Record:
    record = await backend.store.load(identity)
    if record is None or record.owner != owner:
        raise not_found()
    return record


def _why_off(jobs: Mapping[str, Job], settings: JobSettings) -> str:
    if not jobs:
        return "This server has no jobs."
    if settings.is_single or not settings.jobs_in_process:
        return ""
    # With REPLICAS_DNS, `docker service scale` may change the number at any time.
    replicas = "the replicas of a service" if settings.replicas_dns else f"{settings.planned} replicas"
    return f"Jobs are off: {replicas} need a shared queue; set JOBS_URL=redis://…"
