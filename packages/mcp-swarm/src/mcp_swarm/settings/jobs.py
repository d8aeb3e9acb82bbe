"""Long jobs."""

from pydantic import Field, SecretStr, field_validator

from mcp_swarm.settings.words import Seconds, SettingsGroup

_SCHEMES = ("memory://", "redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")


class JobSettings(SettingsGroup):
    """Of the queue, its workers, and who submits to it."""

    jobs_url: SecretStr = SecretStr("memory://")
    """Where jobs wait: `memory://`, in the one replica there is, or a Redis that replicas and workers share:
    `redis://…`, or `redis+sentinel://:password@sentinel-1,sentinel-2,sentinel-3/name`."""
    jobs_copies: int = Field(0, ge=0)
    """How many copies of Redis must have a job before its caller is told that it is accepted (Redis' `WAIT`). With 1 an
    accepted job survives the loss of the master."""
    jobs_concurrency: int = Field(10, ge=1)
    """Jobs that a worker runs at once."""
    jobs_max_pending: int = Field(10_000, ge=1)
    """Jobs that may wait or run; one more is refused with 429."""
    jobs_max_attempts: int = Field(3, ge=1)
    """How often a job is begun whose worker is lost each time; then it has failed."""
    jobs_redelivery_seconds: Seconds = Field(30, ge=0.5)
    """Time without a sign of life after which a worker's jobs go to another; a third more at most."""
    jobs_timeout_seconds: Seconds = Field(600, gt=0)
    """Time for a job that names no timeout of its own."""
    jobs_retention_seconds: Seconds = Field(3600, ge=1)
    """Time that a finished job is kept which names no retention of its own."""
    jobs_max_result_bytes: int = Field(1024 * 1024, ge=1)
    """Largest result of a job, as JSON; beyond it the job has failed."""
    jobs_wait_seconds: Seconds = Field(5, ge=0)
    """Time that a call of a job's own tool waits for the result, before it tells how to get it."""
    jobs_unknown_seconds: Seconds = Field(120, ge=0)
    """Time that a job waits for a worker that knows its name, as during an update; then it has failed."""

    @field_validator("jobs_url")
    @classmethod
    def _queue(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith(_SCHEMES):
            raise ValueError("neither memory:// nor the URL of a Redis, like redis://:password@redis:6379/0")
        return value

    @property
    def jobs_in_process(self) -> bool:
        """Whether jobs wait and run in the replica itself."""
        return self.jobs_url.get_secret_value().startswith("memory://")
