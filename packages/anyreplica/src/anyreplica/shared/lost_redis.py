"""What to do when Redis cannot be reached: notice it fast, and try again for some seconds.

A lost node no longer answers, and its connections stay open.

There are two kinds of commands. A **quick** command belongs to a request that goes on without Redis or gets an error:
it has a short time limit, and it fails at once while Redis does not answer (`shared/outage.py`). A **patient**
command belongs to something that waits for a person anyway, such as a question to a client: a Redis that is only slow,
because its node has little CPU, must not end it. All commands inside `retry_for` and `patiently` are patient.

This module also corrects two faults of redis-py 8. It replaces methods in redis-py's own classes, so that the
connections that Docket makes are corrected, too.
"""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

T = TypeVar("T")

QUICK_SECONDS = 1.0
"""Time limit for the answer to a quick command, in seconds. A healthy Redis answers in a thousandth of this time."""
PATIENT_SECONDS = 5.0
"""Time limit for the answer to a patient command, in seconds. A Redis on a node with little CPU took 2 to 4 s."""
PERSIST_SECONDS = 15.0
"""Time for which `retry_for` tries, in seconds. The first script on a new connection takes three answers of Redis."""
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

    _patch_redis_py()
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
def translate_redis_errors() -> Iterator[None]:
    """Raise an error of redis-py as an OSError, so that the caller need not import redis-py."""
    from redis.exceptions import RedisError  # noqa: PLC0415  # as in anyreplica.shared.redis

    try:
        yield
    except RedisError as error:
        raise OSError(reason(error)) from None


@functools.cache
def _patch_redis_py() -> None:
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


_PATIENT: ContextVar[bool] = ContextVar("patient_redis_commands", default=False)


def is_patient() -> bool:
    """Return whether the current task waits patiently for Redis."""
    return _PATIENT.get()


async def patiently(work: Awaitable[T]) -> T:
    """Return the result of `work`, whose commands to Redis are patient. This function does not try again.

    The caller must not hold a place of MAX_IN_FLIGHT, see `InFlight.outside`.
    """
    token = _PATIENT.set(True)
    try:
        return await work
    finally:
        _PATIENT.reset(token)


async def retry_for(attempt: Callable[[], Awaitable[T]], seconds: float = PERSIST_SECONDS) -> T:
    """Return the result of `attempt`, whose commands to Redis are patient. If it raises OSError, try again.

    The caller must not hold a place of MAX_IN_FLIGHT, see `InFlight.outside`. The attempt must be safe to repeat: Redis
    may have done its work although the reply was lost.

    Raises:
        OSError: no attempt has succeeded within `seconds`.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        try:
            async with asyncio.timeout_at(until) as limit:
                return await patiently(attempt())
        except OSError:
            if limit.expired():  # not as a TimeoutError, which would mean that a person did not answer
                raise OSError(f"no answer within {seconds:g} s") from None
            if loop.time() + _PAUSE_SECONDS > until:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)
