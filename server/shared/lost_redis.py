"""A Redis whose node loses its power: it answers nothing, and ends no connection. Clients notice within seconds.

redis-py 8.1 has two faults there, for which this module has the cure: it changes two methods of redis-py's classes, as
Docket makes connections of its own.
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
    socket.TCP_KEEPIDLE: 1,
    socket.TCP_KEEPINTVL: 1,
    socket.TCP_KEEPCNT: _LOST_SECONDS - 1,
    socket.TCP_USER_TIMEOUT: _LOST_SECONDS * 1000,
}


def notice_losses(pool: "ConnectionPool") -> None:
    """Let the connections that a pool will make end 4 s after their other end was lost, and be made anew elsewhere.

    Those that there are end as late as they would have.
    """
    from redis.asyncio.retry import Retry  # noqa: PLC0415  # as in server.shared.redis
    from redis.asyncio.sentinel import SentinelConnectionPool  # noqa: PLC0415
    from redis.backoff import NoBackoff  # noqa: PLC0415

    _mend_redis_py()
    pool.update_connection_kwargs(socket_keepalive=True, socket_keepalive_options=_KEEPALIVE)
    if isinstance(pool, SentinelConnectionPool):
        for sentinel in pool.sentinel_manager.sentinels:
            sentinel.connection_pool.update_connection_kwargs(
                socket_timeout=_SENTINEL_SECONDS,
                socket_connect_timeout=_SENTINEL_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )


def reason(error: BaseException) -> str:
    """Why Redis can't be reached, for the log; redis-py tells of each Sentinel in a kilobyte."""
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
