"""What a worker does with one job: begin an attempt, run it for as long as it may, note how it ended."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from fastmcp.exceptions import FastMCPError
from pydantic_core import from_json, to_json

from mcp_swarm.components.job import Job, Progress
from mcp_swarm.downstream import deadline
from mcp_swarm.jobs.backend import UNREACHABLE, Backend
from mcp_swarm.jobs.store import Claim, Store
from mcp_swarm.settings import Settings
from mcp_swarm.tracing.attempt_span import attempt_failed, attempt_span

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0
_ANSWER_SECONDS = 1.0
"""Time for Redis to answer what a job can do without."""
_LOOKS_APART = 5.0
"""Seconds between two looks whether a job is still an attempt's."""
_LONGEST = 500
"""Characters of a message or an error that callers read."""
_STUBBORN = 5.0
"""Seconds that a job may take to end when it is stopped."""
_UNKNOWN_PAUSE = 1.0
_REPORTS_APART = 0.1
"""Seconds between two reports of progress that are written; those between are left out."""


class Runner:
    """Runs jobs, and knows those that run."""

    def __init__(self, jobs: Mapping[str, Job], backend: Backend, settings: Settings) -> None:
        self._jobs = jobs
        self._backend = backend
        self._store = backend.store
        self._settings = settings
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def run(self, identity: str) -> None:
        """Run the job of an id, if it is still to be run; raises CancelledError if it is cancelled."""
        await _patiently(self._store.note_queued, identity)
        record = await _patiently(self._store.load, identity)
        if record is None or record.is_finished:
            return
        job = self._jobs.get(record.job)
        if self._stopping:
            await _patiently(self._backend.enqueue_again, identity, 0)
        elif job is not None:
            claim = await _patiently(self._store.claim, identity, self._settings.jobs_max_attempts)
            if claim is not None:
                with attempt_span(job.name, identity, claim.attempt, record.traceparent):
                    await self._take(job, claim)
        elif time.time() - record.submitted < self._settings.jobs_unknown_seconds:
            # A newer version's job, or an older one's, while an update goes on: another worker knows it.
            await _patiently(self._backend.enqueue_again, identity, _UNKNOWN_PAUSE)
        else:
            why = f"no worker knows a job named {record.job!r}"
            await _patiently(self._store.finish, record, "failed", error=why)

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

    async def _take(self, job: Job, claim: Claim) -> None:
        """Run an attempt to an end that its record tells of, whatever happens."""
        try:
            if claim.given_up:
                await self._fail(claim, f"given up after {claim.attempt} attempts: its worker was lost too often")
            else:
                await self._attempt(job, claim)
        except Exception:
            logger.exception("Job %s %s", job.name, claim.record.id)
            await self._fail(claim, "it failed")

    async def _attempt(self, job: Job, claim: Claim) -> None:
        try:
            arguments = job.check(from_json(claim.arguments))
        except (ValueError, TypeError) as error:
            await self._fail(claim, f"its arguments can't be read: {error}")
            return
        seconds = job.meta.timeout or self._settings.jobs_timeout_seconds
        logger.info("Job %s %s: attempt %d", job.name, claim.record.id, claim.attempt)
        task = asyncio.ensure_future(_contained(job.run(arguments, ReportingProgress(self._store, claim)), seconds))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await self._watch(task, claim, seconds)
        except asyncio.CancelledError:
            await _stop(task, job)
            logger.info("Job %s %s: cancelled", job.name, claim.record.id)
            raise
        if not task.done():
            await _stop(task, job)
            await self._fail(claim, f"timeout: it did not finish within {seconds:g} s")
        elif self._stopping and (task.cancelled() or task.exception() is not None):
            await self._give_back(claim, 0, failures=claim.failures, counts=False)
        elif task.cancelled():
            # By itself; or by `ReportingProgress` or `_watch`, since the job is lost to it: then this changes nothing.
            await self._fail(claim, "it was cancelled from within")
        elif (raised := task.exception()) is not None:
            await self._raised(job, claim, raised)
        else:
            await self._complete(job, claim, task.result())

    async def _watch(self, task: asyncio.Task[Any], claim: Claim, seconds: float) -> None:
        """Wait for a job's code, for so long; stop it when its record says that the job isn't this attempt's any more.

        A worker is told to cancel a job by a message, which may get lost.
        """
        end = time.monotonic() + seconds
        while not task.done() and (left := end - time.monotonic()) > 0:
            await asyncio.wait({task}, timeout=min(left, _LOOKS_APART))
            with contextlib.suppress(*UNREACHABLE):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    if not task.done() and not await self._store.holds(claim):
                        task.cancel()

    async def _raised(self, job: Job, claim: Claim, error: BaseException) -> None:
        logger.warning("Job %s %s failed", job.name, claim.record.id, exc_info=error)
        failures = claim.failures + 1
        if failures <= job.meta.retries:
            attempt_failed("it is tried again", error)
            await self._give_back(claim, min(2.0 ** (failures - 1), 60.0), failures=failures, counts=True)
        else:
            # As with a tool: only what an author says on purpose is for callers.
            said = isinstance(error, FastMCPError) or self._settings.debug_errors
            await self._fail(claim, str(error) if said else "it failed", error)

    async def _complete(self, job: Job, claim: Claim, value: Any) -> None:
        try:
            result = to_json(value, inf_nan_mode="constants")
            from_json(result, allow_inf_nan=False)
        except (ValueError, TypeError) as error:
            logger.warning("Job %s %s returned what JSON can't carry: %s", job.name, claim.record.id, error)
            await self._fail(claim, "its result can't be carried by JSON")
            return
        most = self._settings.jobs_max_result_bytes
        if len(result) > most:
            await self._fail(claim, f"its result has {len(result)} bytes; JOBS_MAX_RESULT_BYTES allows {most}")
        elif await _patiently(
            self._store.finish, claim.record, "completed", attempt=claim.attempt, result=result.decode()
        ):
            logger.info("Job %s %s: completed", job.name, claim.record.id)

    async def _fail(self, claim: Claim, why: str, raised: BaseException | None = None) -> None:
        why = _sayable(why)
        attempt_failed(why, raised)
        if await _patiently(self._store.finish, claim.record, "failed", attempt=claim.attempt, error=why):
            logger.info("Job %s %s: failed: %s", claim.record.job, claim.record.id, why)

    async def _give_back(self, claim: Claim, seconds: float, *, failures: int, counts: bool) -> None:
        if await _patiently(self._store.give_back, claim, failures=failures, counts=counts):
            await _patiently(self._backend.enqueue_again, claim.record.id, seconds)


class ReportingProgress(Progress):
    """Progress of one attempt, written to its record."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._written = 0.0

    async def __call__(self, percent: float, message: str = "") -> None:
        """Report, unless Redis is away; raises CancelledError if the job isn't this attempt's any more."""
        now = time.monotonic()
        if now - self._written < _REPORTS_APART:
            return
        self._written = now
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                mine = await self._store.progress(self._claim, min(100.0, max(0.0, float(percent))), _sayable(message))
        except UNREACHABLE:
            self._written += _LOOKS_APART  # the job shouldn't wait again so soon
            return
        if not mine:
            raise asyncio.CancelledError("the job is another attempt's, or was cancelled")


async def _contained(call: Awaitable[T], seconds: float) -> T:
    deadline.until(None)  # a submission's, where the worker is in its replica
    deadline.until(seconds)
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


def _sayable(text: object) -> str:
    """What callers may read of a text: all that UTF-8 can carry, and not too much."""
    return str(text)[:_LONGEST].encode(errors="replace").decode()


async def _patiently(step: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Take a step that needs Redis, again and again while that is away."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await step(*args, **kwargs)
        except UNREACHABLE as error:
            logger.warning("A job waits for Redis: %r", error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)
