"""What to do when Redis cannot be reached: notice it fast, and try again for some seconds.

A lost node no longer answers, and its connections stay open.

This module also corrects two faults of redis-py 8. It replaces methods in redis-py's own classes, so that the
connections that Docket makes are corrected, too.
"""

import asyncio
import contextlib
import functools
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

T = TypeVar("T")

_PERSIST_SECONDS = 3.0
_PAUSE_SECONDS = 0.2
_SENTINEL_SECONDS = 0.5
"""Time limit for an answer of one Sentinel, in seconds. It is short, because after a lost Sentinel the client must
still ask the other Sentinels."""
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
    """Make new connections of this pool fail 4 s after the loss of their Redis.

    The connections that exist already do not change.
    """
    from redis.asyncio.connection import Connection  # noqa: PLC0415  # as in anyreplica.shared.redis
    from redis.asyncio.retry import Retry  # noqa: PLC0415
    from redis.asyncio.sentinel import SentinelConnectionPool  # noqa: PLC0415
    from redis.backoff import NoBackoff  # noqa: PLC0415

    _mend_redis_py()
    if issubclass(pool.connection_class, Connection):  # over TCP
        pool.connection_kwargs.update(socket_keepalive=True, socket_keepalive_options=_KEEPALIVE)
    if isinstance(pool, SentinelConnectionPool):
        for sentinel in pool.sentinel_manager.sentinels:
            sentinel.connection_pool.connection_kwargs.update(
                socket_timeout=_SENTINEL_SECONDS,
                socket_connect_timeout=_SENTINEL_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )


def reason(error: BaseException) -> str:
    """Return why Redis can't be reached, for the log, without redis-py's long text for each Sentinel."""
    return str(error).partition(" : ")[0] or type(error).__name__


@contextlib.contextmanager
def raising_os_errors() -> Iterator[None]:
    """Raise an error of redis-py as an OSError, so that the caller need not import redis-py."""
    from redis.exceptions import RedisError  # noqa: PLC0415  # as in anyreplica.shared.redis

    try:
        yield
    except RedisError as error:
        raise OSError(reason(error)) from None


@functools.cache
def _mend_redis_py() -> None:
    from redis import _parsers  # noqa: PLC0415
    from redis.asyncio.sentinel import SentinelManagedConnection  # noqa: PLC0415
    from redis.exceptions import ConnectionError as LostError  # noqa: PLC0415

    def losing(read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return a parser's `read` that raises `ConnectionError` if the kernel has ended the connection (ETIMEDOUT).

        redis-py itself treats ETIMEDOUT as "no message yet". A subscription then reads again at once in an endless
        loop, and nothing else runs in the process.
        """

        async def read_or_lose(*arguments: Any, **options: Any) -> Any:
            try:
                return await read(*arguments, **options)
            except TimeoutError as error:
                raise LostError(f"Lost the connection to Redis: {error}") from error

        return read_or_lose

    async def connect(
        self: SentinelManagedConnection, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        """Connect to the current master.

        redis-py asks Sentinel only when it takes a connection out of its pool. A worker retries a command until Redis
        answers. Without this method, the worker would retry at the lost master for ever.
        """
        if retry_socket_connect:
            await self.connect()  # type: ignore[no-untyped-call]  # asks Sentinel, then calls this again with False
        else:
            await super(SentinelManagedConnection, self).connect_check_health(check_health, retry_socket_connect)

    for parser in (_parsers._AsyncRESP2Parser, _parsers._AsyncRESP3Parser, _parsers._AsyncHiredisParser):  # noqa: SLF001
        parser.read_response = losing(parser.read_response)  # type: ignore[method-assign, assignment]
    SentinelManagedConnection.connect_check_health = connect  # type: ignore[assignment, method-assign]


async def persistently(attempt: Callable[[], Awaitable[T]], seconds: float = _PERSIST_SECONDS) -> T:
    """Return the result of `attempt`. If it raises OSError, try again for some seconds.

    One failure says little: if this process stalls for a second, all its commands to Redis fail with a timeout.

    The attempt must be safe to repeat: Redis may have done its work although the reply was lost.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return await attempt()
        except OSError:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)
