"""The part of a worker that runs a job: it starts an attempt, enforces the time limit, and records the end."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from fastmcp.exceptions import FastMCPError
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from pydantic_core import from_json, to_json

from anyreplica._version import __version__
from anyreplica.components import call_limits
from anyreplica.components.job import Job, Progress
from anyreplica.components.json_results import no_json
from anyreplica.features.jobs.backend import UNREACHABLE, Backend
from anyreplica.features.jobs.settings import JobSettings
from anyreplica.features.jobs.store import Claim, Store
from anyreplica.http.trace_context import links_to
from anyreplica.process.logs import trace_id

logger = logging.getLogger(__name__)

_tracer = trace.get_tracer("anyreplica", __version__)

T = TypeVar("T")

P = ParamSpec("P")

_FAILED = "The job failed; the server's log has the reason."

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0

_ANSWER_SECONDS = 1.0
"""Seconds to wait for Redis in operations that a running job does not depend on."""

_POLL_SECONDS = 5.0
"""Seconds between two checks that this attempt still holds its job."""

_LONGEST = 500
"""Maximum number of characters of a progress message or an error in a job's status."""

_STUBBORN = 5.0
"""Seconds that a cancelled job may take to end."""

_UNKNOWN_PAUSE = 1.0

_REPORTS_APART = 0.1
"""Minimum number of seconds between two progress reports that are written. Reports in between are dropped."""


@contextmanager
def attempt_span(job: str, identity: str, attempt: int, submitted: str) -> Iterator[None]:
    """Run the block, which is one attempt of a job, in a new span.

    `submitted` is the `traceparent` of the job's submission, from `current_traceparent`, or empty. The span has a link
    to the submission's span and is not its child: the submission may have ended days ago, and a job may have several
    attempts.
    """
    about: dict[str, str | int] = {"job.name": job, "job.id": identity, "job.attempt": attempt}
    with _tracer.start_as_current_span(f"job {job}", None, SpanKind.CONSUMER, about, links_to(submitted)) as span:
        own = span.get_span_context()
        token = trace_id.set(trace.format_trace_id(own.trace_id) if own.is_valid else "")
        try:
            yield
        finally:
            trace_id.reset(token)


def attempt_failed(why: str, error: BaseException | None = None) -> None:
    """Mark the span of the current attempt as failed.

    `why` is the error text for callers. `error` is the exception that the job raised, if any.
    """
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attribute("error.type", "job_error" if error is None else type(error).__qualname__)
        if error is not None:
            span.record_exception(error)
        span.set_status(StatusCode.ERROR, why)


class Runner:
    """The runner of one worker: runs jobs and keeps track of the running ones."""

    def __init__(self, jobs: Mapping[str, Job], backend: Backend, settings: JobSettings) -> None:
        self._jobs = jobs
        self._backend = backend
        self._store = backend.store
        self._settings = settings
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def run(self, identity: str) -> None:
        """Run one attempt of a job, unless the job has ended; raise CancelledError if Docket cancels the job."""
        await _retry_forever(self._store.note_queued, identity)
        record = await _retry_forever(self._store.load, identity)
        if record is None or record.is_finished:
            return
        job = self._jobs.get(record.job)
        if self._stopping:
            await _retry_forever(self._backend.enqueue_again, identity, 0)
        elif job is not None:
            claim = await _retry_forever(self._store.claim, identity, self._settings.jobs_max_attempts)
            if claim is not None:
                with attempt_span(job.name, identity, claim.attempt, record.traceparent):
                    await self._run(job, claim)
        elif time.time() - record.submitted < self._settings.jobs_unknown_seconds:
            # During an update, workers of two versions run. The job may belong to the other version.
            await _retry_forever(self._backend.enqueue_again, identity, _UNKNOWN_PAUSE)
        else:
            why = f"No worker has a job named {record.job!r}."
            await _retry_forever(self._store.finish, record, "failed", error=why)

    async def drain(self, seconds: float) -> bool:
        """Wait up to `seconds` for the running jobs. Then stop all jobs that still run and put them into the queue.

        Return whether all jobs have ended.
        """
        if self._running:
            text = "Waiting for %d running jobs, for at most %g s (SHUTDOWN_GRACE_SECONDS)"
            logger.info(text, len(self._running), seconds)
            await asyncio.wait(self._running, timeout=seconds)
        self._stopping = True
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=_STUBBORN)
        return not self._running

    async def _run(self, job: Job, claim: Claim) -> None:
        """Run an attempt. If the worker itself raises an exception, record that the job failed."""
        try:
            if claim.given_up:
                text = f"Given up after {claim.attempt} attempts: the worker was lost too often (JOBS_MAX_ATTEMPTS)."
                await self._fail(claim, text)
            else:
                await self._attempt(job, claim)
        except Exception:
            logger.exception("Job %s %s: the worker failed to run the job", job.name, claim.record.id)
            await self._fail(claim, _FAILED)

    async def _attempt(self, job: Job, claim: Claim) -> None:
        try:
            arguments = job.check(from_json(claim.arguments))
        except (ValueError, TypeError) as error:
            await self._fail(claim, f"The worker cannot read the job's arguments: {error}")
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
            await self._fail(claim, f"Timeout: the job did not finish within {seconds:g} s.")
        elif self._stopping and (task.cancelled() or task.exception() is not None):
            await self._requeue(claim, 0, failures=claim.failures, counts=False)
        elif task.cancelled():
            # Either the job's code cancelled itself, or `ReportingProgress` or `_watch` cancelled it because this
            # attempt no longer holds the job. In the second case, the next line changes nothing in the record.
            await self._fail(claim, "The job cancelled itself.")
        elif (raised := task.exception()) is not None:
            await self._raised(job, claim, raised)
        else:
            await self._complete(job, claim, task.result())

    async def _watch(self, task: asyncio.Task[Any], claim: Claim, seconds: float) -> None:
        """Wait up to `seconds` for a job's code, and cancel the code when this attempt no longer holds the job.

        An attempt loses its job when the job is cancelled or when another worker takes the job over. This method reads
        the record every 5 seconds, because the message that cancels a job may not reach the worker.
        """
        end = time.monotonic() + seconds
        while not task.done() and (left := end - time.monotonic()) > 0:
            await asyncio.wait({task}, timeout=min(left, _POLL_SECONDS))
            with contextlib.suppress(*UNREACHABLE):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    if not task.done() and not await self._store.holds(claim):
                        task.cancel()

    async def _raised(self, job: Job, claim: Claim, error: BaseException) -> None:
        logger.warning("Job %s %s: attempt %d failed", job.name, claim.record.id, claim.attempt, exc_info=error)
        failures = claim.failures + 1
        if failures <= job.meta.retries:
            attempt_failed("The job is retried.", error)
            await self._requeue(claim, min(2.0 ** (failures - 1), 60.0), failures=failures, counts=True)
        else:
            # As with tools, clients get the text of a FastMCPError, because authors raise it for clients. They get the
            # text of another exception only with DEBUG_ERRORS.
            is_for_clients = isinstance(error, FastMCPError) or self._settings.debug_errors
            await self._fail(claim, str(error) if is_for_clients else _FAILED, error)

    async def _complete(self, job: Job, claim: Claim, value: Any) -> None:
        try:
            result = to_json(value, inf_nan_mode="constants")
            from_json(result, allow_inf_nan=False)
        except (ValueError, TypeError) as error:
            text = no_json("The job", value)
            logger.warning("Job %s %s: %s (%s)", job.name, claim.record.id, text, error)
            await self._fail(claim, text)
            return
        most = self._settings.jobs_max_result_bytes
        if len(result) > most:
            text = f"Job result too large: {len(result)} bytes, the limit is {most} (JOBS_MAX_RESULT_BYTES)."
            await self._fail(claim, text)
        elif await _retry_forever(
            self._store.finish, claim.record, "completed", attempt=claim.attempt, result=result.decode()
        ):
            logger.info("Job %s %s: completed", job.name, claim.record.id)

    async def _fail(self, claim: Claim, why: str, raised: BaseException | None = None) -> None:
        why = _sayable(why)
        attempt_failed(why, raised)
        if await _retry_forever(self._store.finish, claim.record, "failed", attempt=claim.attempt, error=why):
            logger.info("Job %s %s: failed: %s", claim.record.job, claim.record.id, why)

    async def _requeue(self, claim: Claim, seconds: float, *, failures: int, counts: bool) -> None:
        if await _retry_forever(self._store.requeue, claim, failures=failures, counts=counts):
            await _retry_forever(self._backend.enqueue_again, claim.record.id, seconds)


class ReportingProgress(Progress):
    """The progress of one attempt, written to the job's record."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._written = 0.0

    async def __call__(self, percent: float, message: str = "") -> None:
        """Write a progress report to the record; skip the report while Redis cannot be reached.

        Raises:
            CancelledError: this attempt no longer holds the job.
        """
        now = time.monotonic()
        if now - self._written < _REPORTS_APART:
            return
        self._written = now
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                mine = await self._store.progress(self._claim, min(100.0, max(0.0, float(percent))), _sayable(message))
        except UNREACHABLE:
            self._written += _POLL_SECONDS  # drop the next reports, which would only wait for Redis again
            return
        if not mine:
            raise asyncio.CancelledError("The job was cancelled, or another attempt runs it.")


async def _contained(call: Awaitable[T], seconds: float) -> T:
    call_limits.set_deadline(None)  # the next line would keep an earlier deadline
    call_limits.set_deadline(seconds)
    try:
        return await call
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:  # SystemExit and KeyboardInterrupt would end the worker
        raise RuntimeError(f"{type(error).__name__} was raised") from error


async def _stop(task: asyncio.Task[Any], job: Job) -> None:
    """Cancel a job and wait at most 5 seconds for its end; log an error if the job ignores the cancellation."""
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=_STUBBORN)
    if not done:
        logger.error("Job %s: the job ignores its cancellation and still runs", job.name)
    elif not task.cancelled():
        task.exception()


def _sayable(text: object) -> str:
    """Return the first 500 characters of a text, with `?` for each character that UTF-8 cannot encode."""
    return str(text)[:_LONGEST].encode(errors="replace").decode()


async def _retry_forever(step: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a step that needs Redis, and retry the step until Redis can be reached."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await step(*args, **kwargs)
        except UNREACHABLE as error:
            logger.warning("Redis cannot be reached; a job waits for it: %r", error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)
