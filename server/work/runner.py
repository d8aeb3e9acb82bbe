"""What a worker does with one job: begin an attempt, run it for as long as it may, note how it ended."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from fastmcp.exceptions import FastMCPError
from pydantic_core import from_json, to_json

from server.config import Settings
from server.work.backend import UNREACHABLE, Backend
from server.work.job import Job, Progress
from server.work.store import Claim

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0
_PATIENCE = 600.0
"""Seconds for which a job's end waits for Redis."""
_STUBBORN = 5.0
"""Seconds that a job may take to end when it is stopped."""
_UNKNOWN_PAUSE = 1.0
_REPORTS_APART = 0.1
"""Seconds between two reports of progress that are written; those between are left out."""


class Runner:
    """Runs jobs, and knows those that run.

    Args:
        jobs: by name.
    """

    def __init__(self, jobs: Mapping[str, Job], backend: Backend, settings: Settings) -> None:
        self._jobs = jobs
        self._backend = backend
        self._store = backend.store
        self._settings = settings
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def run(self, identity: str) -> None:
        """Run the job of an id, if it is still to be run.

        Raises:
            CancelledError: it was cancelled.
        """
        claim = await _patiently(lambda: self._store.claim(identity))
        await _patiently(lambda: self._backend.let_end(identity))
        if claim is None:
            return
        job, record = self._jobs.get(claim.record.job), claim.record
        if self._stopping:
            await self._give_back(claim, 0, counts=False)
        elif claim.attempt - 1 - claim.failures >= self._settings.jobs_max_attempts:
            lost = f"given up after {self._settings.jobs_max_attempts} attempts: each time its worker was lost"
            await self._fail(claim, lost)
        elif job is not None:
            await self._attempt(job, claim)
        elif time.time() - record.submitted < self._settings.jobs_unknown_seconds:
            # A newer version's job, or an older one's, while an update goes on: another worker knows it.
            await self._give_back(claim, _UNKNOWN_PAUSE, counts=False)
        else:
            await self._fail(claim, f"no worker knows a job named {record.job!r}")

    async def drain(self, seconds: float) -> bool:
        """Let jobs that run finish, and give back those that take longer; returns whether all of them ended."""
        if self._running:
            logger.info("%d jobs are running; they have %g s", len(self._running), seconds)
            await asyncio.wait(self._running, timeout=seconds)
        self._stopping = True
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=_STUBBORN)
        return not self._running

    async def _attempt(self, job: Job, claim: Claim) -> None:
        try:
            arguments = job.check(from_json(claim.arguments))
        except (ValueError, TypeError) as error:
            await self._fail(claim, f"its arguments can't be read: {error}")
            return
        seconds = job.timeout or self._settings.jobs_timeout_seconds
        logger.info("Job %s %s: attempt %d", job.name, claim.record.id, claim.attempt)
        task = asyncio.ensure_future(_contained(job.run(arguments, Report(self._backend, claim))))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            await _stop(task, job)
            logger.info("Job %s %s: cancelled", job.name, claim.record.id)
            raise
        if not task.done():
            await _stop(task, job)
            await self._fail(claim, f"timeout: it did not finish within {seconds:g} s")
        elif task.cancelled():
            if self._stopping:
                await self._give_back(claim, 0, counts=False)
            else:  # by `Report`, since the job isn't this attempt's any more and this changes nothing; or by itself
                await self._fail(claim, "it was cancelled from within")
        elif (raised := task.exception()) is not None:
            await self._raised(job, claim, raised)
        else:
            await self._complete(job, claim, task.result())

    async def _raised(self, job: Job, claim: Claim, error: BaseException) -> None:
        logger.warning("Job %s %s failed", job.name, claim.record.id, exc_info=error)
        failures = claim.failures + 1
        if failures <= job.retries:
            await self._give_back(claim, min(2.0 ** (failures - 1), 60.0), failures=failures, counts=True)
        else:
            # As with a tool: only what an author says on purpose is for callers.
            said = isinstance(error, FastMCPError) or self._settings.debug_errors
            await self._fail(claim, str(error) if said else "it failed")

    async def _complete(self, job: Job, claim: Claim, value: Any) -> None:
        most = self._settings.jobs_max_result_bytes
        try:
            result = to_json(value, inf_nan_mode="constants")
            from_json(result, allow_inf_nan=False)
        except (ValueError, TypeError) as error:
            logger.warning("Job %s %s returned what JSON can't carry: %s", job.name, claim.record.id, error)
            await self._fail(claim, "its result can't be carried by JSON")
            return
        if len(result) > most:
            await self._fail(claim, f"its result has {len(result)} bytes; JOBS_MAX_RESULT_BYTES allows {most}")
        elif await _patiently(lambda: self._store.finish(claim, "completed", result=result.decode())):
            logger.info("Job %s %s: completed", job.name, claim.record.id)

    async def _fail(self, claim: Claim, why: str) -> None:
        if await _patiently(lambda: self._store.finish(claim, "failed", error=why)):
            logger.info("Job %s %s: failed: %s", claim.record.job, claim.record.id, why)

    async def _give_back(self, claim: Claim, seconds: float, *, failures: int | None = None, counts: bool) -> None:
        raised = claim.failures if failures is None else failures
        identity = claim.record.id

        async def give_back() -> None:
            if await self._store.give_back(identity, claim.attempt, failures=raised, counts=counts):
                await self._backend.enqueue_again(identity, seconds)

        await _patiently(give_back)


class Report(Progress):
    """Progress of one attempt, written to its record."""

    def __init__(self, backend: Backend, claim: Claim) -> None:
        self._store = backend.store
        self._claim = claim
        self._written = 0.0

    async def __call__(self, percent: float, message: str = "") -> None:
        """Report; while Redis is away nothing is written, and the job goes on.

        Raises:
            CancelledError: the job isn't this attempt's any more.
        """
        now = time.monotonic()
        if now - self._written < _REPORTS_APART:
            return
        self._written = now
        try:
            shown = str(message).encode(errors="replace").decode()[:500]
            mine = await self._store.progress(
                self._claim.record.id, self._claim.attempt, min(100.0, max(0.0, float(percent))), shown
            )
        except UNREACHABLE:
            return
        if not mine:
            raise asyncio.CancelledError("the job is another attempt's, or was cancelled")


async def _contained(call: Awaitable[T]) -> T:
    try:
        return await call
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:  # SystemExit and such would end the worker
        raise RuntimeError(f"{type(error).__name__} was raised") from error


async def _stop(task: asyncio.Task[Any], job: Job) -> None:
    """Cancel a job, and see that it ends."""
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=_STUBBORN)
    if not done:
        logger.error("Job %s swallows its cancellation, and runs on", job.name)
    elif not task.cancelled():
        task.exception()


async def _patiently(step: Callable[[], Awaitable[T]]) -> T:
    """Take a step that needs Redis, again and again while that is away.

    Raises:
        RedisError, OSError: for ten minutes.
    """
    end, pause = time.monotonic() + _PATIENCE, _FIRST_PAUSE
    while True:
        try:
            return await step()
        except UNREACHABLE:
            if time.monotonic() > end:
                raise
            logger.warning("Redis can't be reached; a job waits for it")
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)
