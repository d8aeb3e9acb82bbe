"""Settings of jobs."""

from pydantic import Field, SecretStr, field_validator

from anyreplica.settings import CoreSettings
from anyreplica.settings.words import Seconds

_SCHEMES = ("memory://", "redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")


class JobSettings(CoreSettings):
    """Settings of the queue, of the workers, and of replicas that submit jobs."""

    jobs_url: SecretStr = SecretStr("memory://")
    """Queue of jobs. `memory://`: in the memory of a single replica. `redis://…`: in a Redis that replicas and workers
    share. With Sentinel: `redis+sentinel://:password@sentinel-1,sentinel-2,sentinel-3/name`."""
    jobs_copies: int = Field(0, ge=0)
    """Number of Redis copies (Redis's own replicas) that must store a job before its caller gets the confirmation
    (`WAIT` in Redis). With 1, a confirmed job survives the loss of the Redis master. 0: only the
    master must store it."""
    jobs_concurrency: int = Field(10, ge=1)
    """Maximum number of jobs that a worker runs at the same time."""
    jobs_max_pending: int = Field(10_000, ge=1)
    """Maximum number of jobs that wait or run. A further job gets HTTP 429. If callers authenticate, one caller has at
    most half of them."""
    jobs_max_pending_bytes: int = Field(100 * 1024 * 1024, ge=1)
    """Maximum size of the arguments of all jobs that wait or run, as JSON, in bytes. A job beyond it gets HTTP 429. If
    callers authenticate, one caller has at most half of them."""
    jobs_max_attempts: int = Field(3, ge=1)
    """Number of lost attempts after which a job fails. An attempt is lost when its worker is lost."""
    jobs_redelivery_seconds: Seconds = Field(30, ge=0.5)
    """Time after which a worker without a sign of life counts as lost, in seconds. Its jobs then go to another worker.
    This can take up to a third longer."""
    jobs_timeout_seconds: Seconds = Field(600, gt=0)
    """Time limit for a job without a timeout of its own, in seconds."""
    jobs_retention_seconds: Seconds = Field(3600, ge=1)
    """Time for which a finished job without a retention of its own is kept, in seconds."""
    jobs_max_result_bytes: int = Field(1024 * 1024, ge=1)
    """Maximum size of the result of a job, as JSON, in bytes. A job with a larger result fails."""
    jobs_max_task_bytes: int = Field(64 * 1024 * 1024, ge=1024 * 1024)
    """Maximum memory for the arguments and results of tools with `task=True`, in bytes. FastMCP keeps them in the
    Redis of `JOBS_URL` until 15 minutes after the end of a task. Each replica counts what it writes there. One caller
    may use at most half of the memory; all clients without authentication count as one caller. If there is no room
    for the arguments, the server refuses the task. If there is no room for the result, the task fails."""
    jobs_wait_seconds: Seconds = Field(5, ge=0)
    """Maximum time that a call of a job's tool waits for the result, in seconds; never more than half of
    `CALL_TIMEOUT_SECONDS`. After this time, the reply says how to get the result."""
    jobs_unknown_seconds: Seconds = Field(120, ge=0)
    """Time that a job waits for a worker that has a job of this name, in seconds. During an update, some workers may
    not have a new job yet. After this time the job fails."""

    @field_validator("jobs_url")
    @classmethod
    def _queue(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith(_SCHEMES):
            raise ValueError("not a queue; use memory:// or the URL of a Redis, like redis://:password@redis:6379/0")
        return value

    @property
    def jobs_in_process(self) -> bool:
        """Whether jobs wait and run in the replica itself."""
        return self.jobs_url.get_secret_value().startswith("memory://")
