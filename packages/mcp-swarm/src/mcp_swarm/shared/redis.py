"""The Redis that replicas share, if there is one."""

from typing import TYPE_CHECKING

from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError
from mcp_swarm.shared import sentinel
from mcp_swarm.shared.lost_redis import notice_losses

if TYPE_CHECKING:
    from redis.asyncio import Redis

_CONNECT_SECONDS = 1.0
_ANSWER_SECONDS = 1.0
"""A Redis that hangs holds up what waits for it; one that is well answers in a thousandth of this."""


def connect(settings: Settings) -> "Redis | None":
    """A client of `REDIS_URL`, which connects when it is first used; None without one.

    Raises:
        StartupError: the URL is none; nor is JOBS_URL.
    """
    if not settings.jobs_in_process:
        _client("JOBS_URL", settings.jobs_url.get_secret_value())
    return _client("REDIS_URL", settings.redis_url.get_secret_value()) if settings.redis_url else None


def _client(variable: str, url: str) -> "Redis":
    from redis.asyncio import Redis  # noqa: PLC0415  # 60 ms that a replica without Redis saves

    make = sentinel.client if url.startswith(sentinel.SCHEMES) else Redis.from_url
    try:
        client: Redis = make(
            url,
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=_ANSWER_SECONDS,
            health_check_interval=30,
        )
        notice_losses(client.connection_pool)
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]  # looks at the options, no more
    except (ValueError, TypeError):  # whose text may hold the password
        text = "no URL of a Redis, like redis://:password@redis:6379/0 (in the password / is %2F and # is %23)"
        if url.startswith(sentinel.SCHEMES):
            text = "no URL of Sentinels, like redis+sentinel://:password@sentinel-1,sentinel-2,sentinel-3/name/0"
        raise StartupError(f"{variable}: {text}") from None
    return client
