"""What is known of a job: one Redis hash, which every replica reads and its worker writes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

State = Literal["pending", "running", "completed", "failed", "cancelled"]

UNFINISHED = ("pending", "running")

LIFETIME = 7 * 86400
"""Seconds after which whatever is left of a job is gone, also of one that nobody ever ran."""

FIELDS = (
    "id",
    "job",
    "owner",
    "state",
    "progress",
    "message",
    "submitted",
    "started",
    "finished",
    "attempts",
    "error",
    "digest",
    "kept",
    "key",
    "queued",
    "traceparent",
)
"""The fields of the hash. Arguments and result have keys of their own, so that a status is quick to read."""


@dataclass(frozen=True)
class Record:
    """A job that was submitted."""

    id: str
    job: str
    """Its name."""
    owner: str
    """Who submitted it."""
    state: State
    progress: float
    """0 to 100."""
    message: str
    """What it said of its progress last."""
    submitted: float
    """Seconds since the epoch, as all times here."""
    started: float | None
    """When its last attempt began."""
    finished: float | None
    attempts: int
    error: str
    """Why it failed."""
    digest: str
    """Of name and arguments."""
    kept: float
    """Seconds that it is kept after its end."""
    key: str
    """The Redis key of its Idempotency-Key, if it has one."""
    queued: str
    """Not empty as soon as it is in the queue: its submission may have been interrupted before."""
    traceparent: str
    """The span of its submission; empty if that wasn't traced."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing of it will change any more."""
        return self.state not in UNFINISHED

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


def read(values: Mapping[bytes, bytes]) -> Record | None:
    """The record that a hash is; None if there is none."""
    raw = {name: values.get(name.encode(), b"").decode() for name in FIELDS}
    if not raw["id"]:
        return None
    return Record(
        id=raw["id"],
        job=raw["job"],
        owner=raw["owner"],
        state=cast("State", raw["state"]),
        progress=float(raw["progress"] or 0),
        message=raw["message"],
        submitted=float(raw["submitted"]),
        started=float(raw["started"]) if raw["started"] else None,
        finished=float(raw["finished"]) if raw["finished"] else None,
        attempts=int(raw["attempts"] or 0),
        error=raw["error"],
        digest=raw["digest"],
        kept=float(raw["kept"] or 0),
        key=raw["key"],
        queued=raw["queued"],
        traceparent=raw["traceparent"],
    )


def canonical(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON, the same for the same arguments.

    Raises:
        ValueError, TypeError: JSON can't carry them.
    """
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"), allow_nan=False)


def iso(seconds: float | None) -> str | None:
    """A time by RFC 3339, in UTC and to the millisecond."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
