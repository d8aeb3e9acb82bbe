"""The store of job records in Redis. Each change of a record is one atomic Redis script.

A worker sends the number of its attempt with each change. A worker loses its job when another worker takes the job over
or when the job is cancelled. From then on, changes by this worker have no effect, so nothing is reported twice.
"""

import hashlib
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from docket import Docket
from redis.exceptions import RedisError

from anyreplica.auth.caller import ANYBODY
from anyreplica.features.jobs.record import LIFETIME, JobError, Record, State, read
from anyreplica.features.jobs.scripts import (
    ChangeJob,
    ClaimJob,
    CountJobs,
    CreateJob,
    FinishJob,
    NoteQueued,
    RequeueJob,
)
from anyreplica.shared.script import Result, Script

_COPY_SECONDS = 1.0
"""Maximum number of seconds to wait for the copies of Redis. A healthy copy answers in about a millisecond."""

_BATCH = 200
"""Number of records that are read together for a list."""

_INTERRUPTED_SECONDS = 300
"""Number of seconds after which a job that is still not in the queue is deleted: its submission was interrupted."""


@dataclass(frozen=True)
class Claim:
    """An attempt that a worker has started: the worker holds the job."""

    record: Record
    attempt: int
    failures: int
    """Number of earlier attempts that raised an exception. The other earlier attempts were lost with their workers."""
    arguments: bytes
    given_up: bool
    """Whether too many attempts were lost. The worker then ends the job and does not run it."""


@dataclass(frozen=True)
class Counts:
    """The numbers of waiting, running and ended jobs."""

    waiting: int
    running: int
    age: float
    """Seconds since the oldest waiting job was submitted; 0 if no job waits."""
    ended: Mapping[tuple[str, str], int]
    """Number of ended jobs, by job name and final state."""


class TooFewCopies(RedisError):
    """An error: fewer copies of Redis than JOBS_COPIES have the job."""


class Store:
    """The job records, by id, in the Redis of a Docket queue.

    Every method raises RedisError or OSError while Redis cannot be reached.

    Args:
        most: maximum number of jobs that wait or run. A caller with an identity has at most half of them.
        most_bytes: maximum size of the arguments of these jobs together. A caller with an identity has at most half.
        copies: number of copies of Redis that must have a job before the job is accepted.
    """

    def __init__(self, docket: Docket, most: int, most_bytes: int, copies: int = 0) -> None:
        self._docket = docket
        self._most = most
        self._most_bytes = most_bytes
        self._copies = copies
        self._unfinished = docket.key("unfinished")
        self._places = self._unfinished, docket.key("sizes"), docket.key("totals")
        self._ended = docket.key("ended")

    async def create(self, record: Record, arguments: str, idempotency_key: str | None) -> str:
        """Store a new job and return its id.

        If the owner used the idempotency key before, store nothing and return the id of the job from that submission.

        Raises:
            JobError: too many jobs wait or run, or their arguments are too large together.
        """
        if idempotency_key is not None:
            digest = hashlib.sha256(f"{record.owner} {idempotency_key}".encode()).hexdigest()
            record = replace(record, key=self._key("idempotency", digest))
        # Without authentication, all callers are one owner, which may have the whole queue.
        parts = 1 if record.owner == ANYBODY else 2
        share, share_bytes = max(1, self._most // parts), self._most_bytes // parts
        script = CreateJob(
            *self._places,
            record=self._key("job", record.id),
            arguments=self._key("arguments", record.id),
            jobs_of_owner=self._key("jobs-of", record.owner),
            idempotency=[record.key] if record.key else [],
            id=record.id,
            owner=record.owner,
            most=self._most,
            most_of_owner=share,
            most_bytes=self._most_bytes,
            most_bytes_of_owner=share_bytes,
            lifetime=LIFETIME,
            interrupted_seconds=_INTERRUPTED_SECONDS,
            now=_text(record.submitted),
            record_prefix=self._key("job", ""),
            arguments_prefix=self._key("arguments", ""),
            arguments_json=arguments,
            values=_texts({name: value for name, value in vars(record).items() if value is not None}),
        )
        how, identity = await self._run(script)
        if identity:
            return str(identity.decode())
        limits = {
            b"jobs": f"{self._most} jobs wait or run (JOBS_MAX_PENDING)",
            b"jobs of the caller": f"{share} of your jobs wait or run, half of JOBS_MAX_PENDING",
            b"bytes": f"the arguments of jobs may have {self._most_bytes} bytes together (JOBS_MAX_PENDING_BYTES)",
            b"bytes of the caller": f"the arguments of your jobs may have {share_bytes} bytes together, half of "
            "JOBS_MAX_PENDING_BYTES",
        }
        raise JobError(429, "queue_full", f"Job queue full: {limits[how]}; retry later.", retry_after=5)

    async def note_queued(self, identity: str) -> None:
        """Note that a job is in the queue, and set an expiry for Docket's keys of the job."""
        await self._run(self._queued(identity))

    async def note_accepted(self, identity: str) -> None:
        """Note that a job is in the queue, and wait until enough copies of Redis have the job.

        Raises:
            TooFewCopies: too few copies of Redis have the job after one second.
        """
        if not self._copies:
            await self.note_queued(identity)
            return
        async with self._redis() as redis, redis.pipeline(transaction=False) as pipeline:
            # WAIT counts the copies that have all writes of this connection. After a failover the connection may lead
            # to another Redis than the one that got the job, so the script checks that this Redis has the job.
            self._queued(identity).add_to(pipeline)
            pipeline.execute_command("WAIT", self._copies, round(_COPY_SECONDS * 1000))
            is_here, copies = await pipeline.execute()
        if not is_here:
            raise TooFewCopies("Redis lost the job in a failover")
        if copies < self._copies:
            raise TooFewCopies(f"only {copies} of {self._copies} copies of Redis (JOBS_COPIES) have the job")

    async def load(self, identity: str) -> Record | None:
        """Return the record of a job, or None if there is no record."""
        async with self._redis() as redis:
            return read(await redis.hgetall(self._key("job", identity)))

    async def result(self, identity: str) -> bytes | None:
        """Return the result of a completed job as JSON, or None if there is no result."""
        async with self._redis() as redis:
            result: bytes | None = await redis.get(self._key("result", identity))
            return result

    async def of(self, owner: str, limit: int, after: str | None) -> tuple[list[Record], str | None]:
        """Return one page of an owner's jobs, newest first, and the id of the last one if there are more jobs.

        Args:
            limit: maximum number of jobs on the page.
            after: id of the last job on the previous page.

        Raises:
            KeyError: the job `after` is not in the list.
        """
        index, found = self._key("jobs-of", owner), list[Record]()
        async with self._redis() as redis:
            # The set is sorted by the time of submission: the newest jobs are at the end.
            last = await redis.zcard(index) - 1
            if after is not None:
                submitted = await redis.zscore(index, after)
                if submitted is None:
                    raise KeyError(after)
                last -= await redis.zcount(index, submitted, "+inf")
            while last >= 0 and len(found) <= limit:
                ids = await redis.zrange(index, max(0, last - max(limit, _BATCH)), last)
                async with redis.pipeline() as pipeline:
                    for identity in ids:
                        pipeline.hgetall(self._key("job", identity.decode()))
                    records = [read(values) for values in await pipeline.execute()]
                found += [record for record in reversed(records) if record is not None]
                if gone := [identity for identity, record in zip(ids, records, strict=True) if record is None]:
                    await redis.zrem(index, *gone)
                last -= len(ids)
        return found[:limit], (found[limit - 1].id if len(found) > limit else None)

    async def claim(self, identity: str, most_lost: int) -> Claim | None:
        """Start an attempt; return None if the job is deleted or has ended.

        After `most_lost` lost attempts, `Claim.given_up` is true.
        """
        attempt = await self._run(ClaimJob(self._key("job", identity), _text(time.time()), LIFETIME, most_lost))
        if not attempt:
            return None
        async with self._redis() as redis:
            values = await redis.hgetall(self._key("job", identity))
            given = await redis.get(self._key("arguments", identity))
        record = read(values)
        if record is None:
            return None
        return Claim(record, abs(attempt), int(values.get(b"failures", 0)), given or b"", given_up=attempt < 0)

    async def holds(self, claim: Claim) -> bool:
        """Return whether an attempt still holds its job."""
        record = await self.load(claim.record.id)
        return record is not None and (record.state, record.attempts) == ("running", claim.attempt)

    async def progress(self, claim: Claim, percent: float, message: str) -> bool:
        """Write an attempt's progress; return False if the attempt no longer holds the job."""
        values = _texts({"progress": percent, "message": message})
        return await self._run(ChangeJob(self._key("job", claim.record.id), str(claim.attempt), values)) == 1

    async def requeue(self, claim: Claim, *, failures: int, counts: bool) -> bool:
        """Set a job back to pending, for another attempt; return False if this attempt no longer holds the job.

        Args:
            failures: number of failed attempts so far. An attempt does not count as failed if it ended because its
                worker stops.
            counts: whether this attempt counts in the record's number of attempts.
        """
        values = _texts({"attempts": claim.attempt if counts else claim.attempt - 1, "failures": failures})
        return await self._run(RequeueJob(self._key("job", claim.record.id), str(claim.attempt), values)) == 1

    async def finish(
        self, record: Record, state: State, *, attempt: int | None = None, error: str = "", result: str = ""
    ) -> bool:
        """End a job; return False if the job has ended before, or if the attempt no longer holds the job.

        Args:
            attempt: number of the attempt that ends the job. None: the job ends, whichever attempt holds it.
            result: the job's result as JSON; empty if there is none.
        """
        fields: dict[str, Any] = {"state": state, "error": error, "finished": time.time()}
        if result:
            fields |= {"progress": 100, "message": ""}
        script = FinishJob(
            *self._places,
            record=self._key("job", record.id),
            arguments=self._key("arguments", record.id),
            result=self._key("result", record.id),
            counts=self._ended,
            idempotency=[record.key] if record.key else [],
            attempt="" if attempt is None else str(attempt),
            retention=max(1, round(record.kept)),
            id=record.id,
            result_json=result,
            lifetime=LIFETIME,
            values=_texts(fields),
        )
        return await self._run(script) == 1

    async def counts(self) -> Counts:
        """Count the waiting, running and ended jobs."""
        waiting, running, oldest = await self._run(CountJobs(self._unfinished, self._key("job", "")))
        async with self._redis() as redis:
            ended = await redis.hgetall(self._ended)
        by_end = {tuple(name.decode().rsplit(":", 1)): int(count) for name, count in ended.items()}
        age = max(0.0, time.time() - float(oldest)) if oldest else 0.0
        return Counts(waiting, running, age, by_end)

    async def _run(self, script: Script[Result]) -> Result:
        async with self._redis() as redis:
            return await script.run(redis)

    def _redis(self) -> AbstractAsyncContextManager[Any]:
        """Return a Redis client, typed as `Any` because Docket's type has only a few of its commands."""
        return self._docket.redis()

    def _queued(self, identity: str) -> NoteQueued:
        own = self._docket
        others = [own.parked_task_key(identity), own.key(f"progress:{identity}")]
        return NoteQueued(self._key("job", identity), own.runs_key(identity), others, LIFETIME)

    def _key(self, kind: str, name: str) -> str:
        return self._docket.key(f"{kind}:{name}")


def _texts(values: Mapping[str, object]) -> list[str]:
    """Return names and values in turn."""
    return [text for name, value in values.items() for text in (name, _text(value))]


def _text(value: object) -> str:
    return f"{value:.6f}" if isinstance(value, float) else str(value)
