"""The pool of connections to Redis: a command waits for a free connection, and fails at once while Redis is away.

In redis-py's own pool, the 101st command at the same moment fails. Its `BlockingConnectionPool` loses a connection if a
task is cancelled while it gives the connection back.
"""

import asyncio
import time
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import ConnectionError as LostError
from redis.exceptions import RedisError, ResponseError

from anyreplica.shared.lost_redis import PATIENT_SECONDS, PERSIST_SECONDS, QUICK_SECONDS, is_patient
from anyreplica.shared.outage import RedisBreaker

_MOST_QUICK = 24
"""Maximum number of connections of quick commands. Each command uses one of them until its answer arrives. More
connections would not be faster: a burst would only open them all at the same moment."""
_MOST_PATIENT = 64
"""Maximum number of connections of patient commands and of subscriptions. They have connections of their own, so that
they do not take those of quick commands. There are more of them, because an answer of a slow Redis takes seconds."""
_WAIT_SECONDS = 2.0
"""Time for which a quick command waits for a free connection, in seconds."""
_SILENT_SECONDS = 0.5
"""A quick command that fails after this time, in seconds, opens the breaker. One that fails earlier does not: Redis
refused the connection or closed it, and the next command notices just as fast whether Redis is back."""
_HEALTH_CHECK_SECONDS = 30
"""Idle time after which a quick command first checks its connection. A patient command just tries again."""


class WaitingPool(ConnectionPool):
    """A pool with few connections, for which commands wait.

    The time limit of a command depends on `is_patient`, so a connection gets its time limit when a command takes it.
    The breaker stops quick commands only.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.breaker = RedisBreaker("Redis (REDIS_URL)", self._ping)
        quick = min(_MOST_QUICK, max(1, self.max_connections // 2))
        self._quick = asyncio.Semaphore(quick)
        self._patient = asyncio.Semaphore(min(_MOST_PATIENT, max(1, self.max_connections - quick)))
        self._in_use: dict[AbstractConnection, tuple[asyncio.Semaphore, float]] = {}
        """The connections in use: the semaphore of each one, and the time at which it was taken."""

    async def get_connection(self, *args: Any, **options: Any) -> Any:  # noqa: ARG002
        """Wait for a free connection and return it.

        Raise redis-py's `ConnectionError` if none becomes free in time, or if the breaker stops the command.
        """
        patient = is_patient()
        free = self._patient if patient else self._quick
        await self._wait_for(free, patient=patient)
        connection: Any = None
        try:
            connection = self.get_available_connection()  # type: ignore[no-untyped-call]
            self._in_use[connection] = free, time.monotonic()
            connection.socket_timeout = connection.socket_connect_timeout = (
                PATIENT_SECONDS if patient else QUICK_SECONDS
            )
            connection.health_check_interval = 0 if patient else _HEALTH_CHECK_SECONDS
            await self.ensure_connection(connection)
        except BaseException:
            if connection is None:
                free.release()
            else:
                await self.release(connection)
            raise
        return connection

    async def _wait_for(self, free: asyncio.Semaphore, *, patient: bool) -> None:
        if patient:
            seconds = PERSIST_SECONDS
        elif self.breaker.is_open:
            raise LostError("no answer")
        else:
            seconds = _WAIT_SECONDS
        try:
            async with asyncio.timeout(seconds) as wait:
                if patient:
                    await free.acquire()
                else:
                    with self.breaker.ending(wait):
                        await free.acquire()
        except TimeoutError:
            raise LostError("all connections wait for answers") from None

    async def release(self, connection: AbstractConnection) -> None:
        """Give a connection back. If its quick command got no answer in time, open the breaker."""
        free, since = self._in_use.pop(connection)
        # redis-py disconnects after a command without an answer, also after a cancelled one.
        if free is self._quick and not connection.is_connected and time.monotonic() - since >= _SILENT_SECONDS:
            self.breaker.open()
        try:
            await super().release(connection)
        finally:
            free.release()

    async def disconnect(self, inuse_connections: bool = True) -> None:
        """Close all connections, and end the probe."""
        await self.breaker.stop()
        await super().disconnect(inuse_connections)

    async def _ping(self) -> bool:
        """Return whether Redis answers as fast as quick commands need it. The connection is a new one, because the
        others may lead to a lost node."""
        connection = self.make_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.connect()
            await connection.send_command("PING", check_health=False)
            await connection.read_response()
        except ResponseError:  # an answer, too
            return True
        except (RedisError, OSError):
            return False
        finally:
            await connection.disconnect(nowait=True)
        return True


class WaitingSentinelPool(WaitingPool, SentinelConnectionPool):
    """A pool with few connections to the current master."""
