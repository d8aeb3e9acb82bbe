"""A listener to a Redis channel. It connects again after a loss of Redis."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from anyreplica.process.tasks import background_task
from anyreplica.shared.lost_redis import patiently
from anyreplica.shared.outage import Outage

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_FIRST_RETRY, _LAST_RETRY = 0.2, 10.0
_START_SECONDS = 1.0


class Channel:
    """A Redis channel that reaches all replicas.

    A message can be lost: Redis delivers it only to the replicas that are connected at that moment.

    Args:
        redis: the Redis that replicas share.
        name: the name of the channel. All replicas of one server use the same name, and no other server uses it.
        loss: a text for the log that says what this replica lacks while Redis can't be reached.

    Attributes:
        is_connected: whether this replica receives the messages now.
    """

    def __init__(self, redis: "Redis", name: str, loss: str) -> None:
        self.redis = redis
        self.name = name
        self.is_connected = False
        self._outage = Outage(logger, loss)

    @contextlib.asynccontextmanager
    async def listening(
        self, on_message: Callable[[bytes], Awaitable[None]], on_connect: Callable[[], None] = lambda: None
    ) -> AsyncIterator[None]:
        """Call `on_message` for each message, and `on_connect` after each connect, while the context is open.

        The start waits for Redis for at most one second and then goes on without it.
        """
        connected = asyncio.Event()

        def connect() -> None:
            connected.set()
            on_connect()

        async with background_task(patiently(self._listen(on_message, connect))):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connected.wait(), _START_SECONDS)
            yield

    async def _listen(self, on_message: Callable[[bytes], Awaitable[None]], on_connect: Callable[[], None]) -> None:
        from redis.exceptions import RedisError  # noqa: PLC0415  # as in anyreplica.shared.redis

        pause = _FIRST_RETRY
        while True:
            try:
                async with self.redis.pubsub(ignore_subscribe_messages=False) as subscription:
                    await subscription.subscribe(self.name)
                    async for message in subscription.listen():
                        if message["type"] == "subscribe":
                            pause = _FIRST_RETRY
                            self.is_connected = True
                            self._outage.end()
                            on_connect()
                        elif message["type"] == "message":
                            await on_message(message["data"])
            except (RedisError, OSError) as error:
                self._outage.begin(error)
            finally:
                self.is_connected = False
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  # spreads the retries of the replicas
            pause = min(2 * pause, _LAST_RETRY)
