"""Clients notice within seconds that the node of their Redis is lost: it answers nothing, and ends no connection.

This module corrects two faults of redis-py 8.1, too. It replaces two methods of redis-py's classes, because Docket
makes connections of its own.
"""

import functools
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

_SENTINEL_SECONDS = 0.5
"""Time for one Sentinel, so that a lost one leaves time to ask the others."""
_LOST_SECONDS = 4
_KEEPALIVE = {
    int(getattr(socket, name)): value
    for name, value in {
        "TCP_KEEPIDLE": 1,
        "TCP_KEEPINTVL": 1,
        "TCP_KEEPCNT": _LOST_SECONDS - 1,
        "TCP_USER_TIMEOUT": _LOST_SECONDS * 1000,
    }.items()
    if hasattr(socket, name)  # macOS doesn't have all of them
}


def notice_losses(pool: "ConnectionPool") -> None:
    """Give up each connection that this pool makes from now on 4 s after its Redis was lost.

    Connections that exist already aren't changed.
    """
    from redis.asyncio.connection import Connection  # noqa: PLC0415  # as in mcp_swarm.shared.redis
    from redis.asyncio.retry import Retry  # noqa: PLC0415
    from redis.asyncio.sentinel import SentinelConnectionPool  # noqa: PLC0415
    from redis.backoff import NoBackoff  # noqa: PLC0415

    _mend_redis_py()
    if issubclass(pool.connection_class, Connection):  # over TCP
        pool.update_connection_kwargs(socket_keepalive=True, socket_keepalive_options=_KEEPALIVE)
    if isinstance(pool, SentinelConnectionPool):
        for sentinel in pool.sentinel_manager.sentinels:
            sentinel.connection_pool.update_connection_kwargs(
                socket_timeout=_SENTINEL_SECONDS,
                socket_connect_timeout=_SENTINEL_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )


def reason(error: BaseException) -> str:
    """Why Redis can't be reached, for the log. redis-py adds a long text for each Sentinel, which is left out."""
    return str(error).partition(" : ")[0] or type(error).__name__


@functools.cache
def _mend_redis_py() -> None:
    from redis.asyncio.connection import AbstractConnection  # noqa: PLC0415
    from redis.asyncio.sentinel import SentinelManagedConnection  # noqa: PLC0415
    from redis.exceptions import ConnectionError as LostError  # noqa: PLC0415

    read = AbstractConnection._read_response_from_parser  # noqa: SLF001

    async def read_or_lose(self: AbstractConnection, *arguments: Any, **options: Any) -> Any:
        """Read a reply. A connection that the kernel gave up (ETIMEDOUT) is lost.

        redis-py takes that for "no message by now". A subscription asks again at once, without end, and nothing else in
        the process goes on.
        """
        try:
            return await read(self, *arguments, **options)
        except TimeoutError as error:
            raise LostError(f"Lost the connection to Redis: {error}") from error

    async def connect(
        self: SentinelManagedConnection, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        """Connect to the master, wherever that is by now.

        redis-py asks Sentinel only when it takes a connection out of its pool. A worker tries a command again until
        Redis is back, and would try it at the lost master for ever.
        """
        if retry_socket_connect:
            await self.connect()  # type: ignore[no-untyped-call]  # which asks, and comes back here with False
        else:
            await super(SentinelManagedConnection, self).connect_check_health(check_health, retry_socket_connect)

    AbstractConnection._read_response_from_parser = read_or_lose  # type: ignore[method-assign]  # noqa: SLF001
    SentinelManagedConnection.connect_check_health = connect  # type: ignore[assignment, method-assign]
