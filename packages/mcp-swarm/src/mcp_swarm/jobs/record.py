"""What is known of a job: one Redis hash, which every replica reads and its worker writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import TypeAdapter

State = Literal["pending", "running", "completed", "failed", "cancelled"]

LIFETIME = 7 * 86400
"""Seconds after which whatever is left of a job is gone, also of one that nobody ever ran."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A job that was submitted: the fields of its hash.

    Arguments and result have keys of their own, so that a status is quick to read. Times are seconds since the epoch;
    `started` is the last attempt's, `progress` is 0 to 100, `message` what the job said with it.
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
    """Of name and arguments."""
    kept: float
    """Seconds that it is kept after its end."""
    key: str = ""
    """The Redis key of its Idempotency-Key, if it has one."""
    queued: str = ""
    """Not empty as soon as it is in the queue: its submission may have been interrupted before."""
    traceparent: str = ""
    """The span of its submission; empty if that wasn't traced."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing of it will change any more."""
        return self.state not in ("pending", "running")

    def status(self) -> dict[str, Any]:
        """As callers read it; times by RFC 3339, null where there is none yet."""
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
        """When it will be done if it goes on as it did."""
        if self.state != "running" or self.started is None or not 0 < self.progress <= 100:
            return None
        now = datetime.now(UTC).timestamp()
        left = (now - self.started) * (100 - self.progress) / self.progress
        return now + left if left < LIFETIME else None


_RECORD = TypeAdapter(Record)


def read(values: Mapping[bytes, bytes]) -> Record | None:
    """The record that a hash is; None if there is none. Empty fields have their defaults.

    A hash without an id is what a late write left of a record that is gone.
    """
    found = {name.decode(): value.decode() for name, value in values.items() if value}
    return _RECORD.validate_python(found) if "id" in found else None


def iso(seconds: float | None) -> str | None:
    """A time by RFC 3339, in UTC and to the millisecond."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
