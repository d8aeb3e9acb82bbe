"""The record of a job (one Redis hash), and the limits of the memory for tools with `task=True`.

The replica that accepts the job creates the hash. The job's worker changes it. Every replica can read it and can
cancel the job. FastMCP keeps the arguments and results of the tools for a time, and `TaskBytes` counts them.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from fastmcp.exceptions import ToolError
from pydantic import TypeAdapter
from pydantic_core import to_json

from anyreplica.auth.caller import ANYBODY
from anyreplica.components.containment import wraps
from anyreplica.http.limits import Shares
from anyreplica.shared.expiring import Expiring

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


KEPT_SECONDS = 15 * 60
"""Time for which FastMCP keeps a task after its end, in seconds. It is a default of Docket that no setting changes."""
_TASK_BYTES = 2048
"""Bytes that a task counts in addition to its arguments and its result."""
_COPIES = 2
"""FastMCP keeps the arguments of a task twice: for the first round, and for later ones. It encodes a result as text."""
_UNKNOWN = ("unknown:", "credentials:")
"""Begin the owners of callers that only middleware of the author knows, see `auth.own_authentication`."""


class TaskBytes:
    """Counts the bytes that FastMCP keeps for the tasks of this process, until they expire there.

    A replica counts the arguments of the tasks that its clients start, and the results of those that its worker runs.
    The queue itself may be in Redis. So all replicas together keep at most `most` times the number of replicas.

    Args:
        most: JOBS_MAX_TASK_BYTES.
    """

    def __init__(self, most: int) -> None:
        self._shares = Shares(most)
        self._sizes: Expiring[tuple[str, int]] = Expiring(lambda kept: self._shares.add(kept[0], -kept[1]))
        self._number = 0

    @property
    def used(self) -> int:
        """Number of bytes that are kept."""
        return self._shares.used

    def keep_arguments(self, owner: str | None, arguments: dict[str, Any]) -> str:
        """Count the arguments of a task. Return a name for `release`.

        Raises:
            ToolError: a limit leaves no room for the arguments.
        """
        size = len(to_json(arguments, serialize_unknown=True, bytes_mode="base64"))
        return self._keep(owner, size, "the arguments")

    def keep_result(self, owner: str | None, result: Any) -> None:
        """Count the result of a task. FastMCP stores the value that the function returned, as a pickle.

        Raises:
            ToolError: a limit leaves no room for the result.
        """
        import cloudpickle  # type: ignore[import-untyped]  # noqa: PLC0415  # a process that runs tasks has it

        self._keep(owner, len(cloudpickle.dumps(result)), "the result")

    def release(self, name: str) -> None:
        """Count no more what became no task."""
        self._sizes.remove(name)

    def _keep(self, owner: str | None, size: int, what: str) -> str:
        self._sizes.expire()
        caller, cost = _caller_of(owner), _TASK_BYTES + _COPIES * size
        if cost > self._shares.room(caller):
            raise self._refusal(what)
        self._number += 1
        name = str(self._number)
        self._shares.add(caller, cost)
        self._sizes.add(name, (caller, cost), KEPT_SECONDS)
        return name

    def _refusal(self, what: str) -> ToolError:
        return ToolError(
            f"No room for {what} of this task: the limits are {self._shares.share} bytes for all tasks of one caller, "
            f"and {self._shares.most} bytes for a replica (JOBS_MAX_TASK_BYTES). Tasks are kept for "
            f"{KEPT_SECONDS // 60} minutes after their end; retry later."
        )

    def limited(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return the function of a tool. If it runs as a task, and a limit leaves no room for its result, it fails."""

        @wraps(function)
        async def run(*args: Any, **kwargs: Any) -> Any:
            result = await function(*args, **kwargs)
            if "fastmcp_tasks.context" not in sys.modules:
                return result  # this process runs no tasks
            from fastmcp_tasks.context import get_task_context  # noqa: PLC0415  # see the line above

            task = get_task_context()
            if task is not None:
                self.keep_result(task.task_scope, result)
            return result

        return run


def _caller_of(owner: str | None) -> str:
    """Return the caller that the tasks of an owner count for.

    All users of a gateway with one key are one caller, as for the other limits. So are all callers that this package
    does not know: some have another owner in each request.
    """
    caller = (owner or ANYBODY).partition(">")[0]
    return ANYBODY if caller.startswith(_UNKNOWN) else caller
