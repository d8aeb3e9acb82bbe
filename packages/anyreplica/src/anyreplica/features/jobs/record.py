"""The record of a job: one Redis hash.

The replica that accepts the job creates the hash. The job's worker changes it. Every replica can read it and can
cancel the job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import TypeAdapter

State = Literal["pending", "running", "completed", "failed", "cancelled"]

LIFETIME = 7 * 86400
"""Seconds after which Redis deletes the data of a job that has not finished, even if no worker ever ran the job."""


class JobError(Exception):
    """A refusal of the job service, with an HTTP status, a code for programs and a message for people.

    The client may retry after `retry_after` seconds. 0: a retry does not help.
    """

    def __init__(self, status: int, code: str, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


def not_found() -> JobError:
    """Return the error for a job that is unknown, deleted, or owned by another caller.

    The text is the same in all three cases, so that a caller cannot find out that another caller's job exists.
    """
    text = "There is no such job: the id is wrong, or the retention time of the finished job is over."
    return JobError(404, "not_found", text)


def invalid(message: str) -> JobError:
    """Return the error for an invalid submission."""
    return JobError(422, "invalid", message)


def unavailable() -> JobError:
    """Return the error for a job queue that cannot be reached."""
    return JobError(503, "unavailable", "The job queue cannot be reached; retry in 2 s.", retry_after=2)


@dataclass(frozen=True, kw_only=True)
class Record:
    """A submitted job: the fields of its Redis hash.

    Arguments and result have Redis keys of their own, so that a status is quick to read. Times are in seconds since the
    epoch. `started` is the start of the last attempt. `progress` is 0 to 100. `message` is the text that the job
    reported with its progress.
    """

    id: str
    job: str
    owner: str
    state: State = "pending"
    progress: float = 0.0
    message: str = ""
    submitted: float
    started: float | None = None
    finished: float | None = None
    attempts: int = 0
    error: str = ""
    digest: str
    """SHA-256 digest of the job's name and arguments."""
    kept: float
    """Seconds for which the record and the result are kept after the end of the job."""
    key: str = ""
    """Redis key of the submission's Idempotency-Key; empty if the submission had none."""
    queued: str = ""
    """Not empty once the job is in the queue. Empty: the submission was interrupted before that."""
    traceparent: str = ""
    """The `traceparent` of the submission's span; empty if the submission was not traced."""

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended: its record does not change any more."""
        return self.state not in ("pending", "running")

    def status(self) -> dict[str, Any]:
        """Return the status for clients, ready for JSON. Times are RFC 3339 text, or None while there is no value."""
        return {
            "id": self.id,
            "job": self.job,
            "status": self.state,
            "progress": self.progress,
            "message": self.message,
            "submitted_at": iso(self.submitted),
            "started_at": iso(self.started),
            "finished_at": iso(self.finished),
            "estimated_completion_at": iso(self._estimate()),
            "attempts": self.attempts,
            "error": self.error or None,
        }

    def _estimate(self) -> float | None:
        """Estimate when the running attempt ends, in seconds since the epoch, from its progress until now."""
        if self.state != "running" or self.started is None or not 0 < self.progress <= 100:
            return None
        now = datetime.now(UTC).timestamp()
        left = (now - self.started) * (100 - self.progress) / self.progress
        return now + left if left < LIFETIME else None


_RECORD = TypeAdapter(Record)


def read(values: Mapping[bytes, bytes]) -> Record | None:
    """Make a record from the fields of a Redis hash; return None if the hash is not a record.

    Empty fields get their defaults. A hash without an id is not a record. For example, Redis returns an empty hash for
    a deleted job.
    """
    found = {name.decode(): value.decode() for name, value in values.items() if value}
    return _RECORD.validate_python(found) if "id" in found else None


def iso(seconds: float | None) -> str | None:
    """Return a time in seconds since the epoch as RFC 3339 text, in UTC, with milliseconds."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
