"""The pool of connections to Redis, in which a command waits for a free connection.

In redis-py's own pool, the 101st command at the same moment fails. Its `BlockingConnectionPool` loses a connection if a
task is cancelled while it gives the connection back.
"""

import asyncio
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import ConnectionError as LostError

_MOST = 24
"""Maximum number of connections. Each command uses one of them until its answer arrives, and subscriptions keep a few.
More connections would not be faster: a burst would only open them all at the same moment."""
_WAIT_SECONDS = 2.0
"""Time for which a command waits for a free connection, in seconds."""


class WaitingPool(ConnectionPool):
    """A pool with few connections, for which commands wait."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._free = asyncio.Semaphore(min(_MOST, self.max_connections))

    async def get_connection(self, *args: Any, **options: Any) -> Any:  # noqa: ARG002
        """Wait for a free connection and return it. Raise redis-py's `ConnectionError` if none becomes free."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise LostError("all connections wait for answers") from None
        connection = None
        try:
            connection = self.get_available_connection()  # type: ignore[no-untyped-call]
            await self.ensure_connection(connection)
        except BaseException:
            if connection is None:
                self._free.release()
            else:
                await self.release(connection)
            raise
        return connection

    async def release(self, connection: AbstractConnection) -> None:
        """Give a connection back."""
        try:
            await super().release(connection)
        finally:
            self._free.release()


class WaitingSentinelPool(WaitingPool, SentinelConnectionPool):
    """A pool with few connections to the current master."""
