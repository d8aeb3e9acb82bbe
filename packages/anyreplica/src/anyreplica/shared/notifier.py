"""Wake-ups: when something changes, a replica wakes the tasks that wait for the change, on any replica.

Short texts that may get lost, such as progress, go the same way.

`Channel` is the Redis channel for this. It connects again after a loss of Redis.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from anyreplica.process.event_loop import background_task
from anyreplica.shared.lost_redis import patiently, translate_redis_errors
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


COMMAND_PREFIX = "once:"
"""Beginning of the names whose wake-up is a command and not a reason to check. They are not woken after a loss."""


class Notifier:
    """The waiting tasks of this replica, by the name of the thing that each task waits for.

    A wake-up contains no data and can be lost. So a task checks first, waits for a wake-up for a limited time, and
    checks again.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], object]]] = {}
        self._receiving: dict[str, Callable[[str], object]] = {}

    @contextlib.contextmanager
    def waiting(self, name: str) -> Iterator[asyncio.Event]:
        """Return an event that is set when `name` is woken. Clear the event before each check."""
        event = asyncio.Event()
        with self.listening(name, event.set):
            yield event

    @contextlib.contextmanager
    def listening(self, name: str, on_wake: Callable[[], object]) -> Iterator[None]:
        """Call `on_wake` when `name` is woken, inside the `with` block."""
        listeners = self._waiting.setdefault(name, [])
        listeners.append(on_wake)
        try:
            yield
        finally:
            listeners.remove(on_wake)
            if not listeners:
                del self._waiting[name]

    @contextlib.contextmanager
    def receiving(self, name: str, on_text: Callable[[str], object]) -> Iterator[None]:
        """Call `on_text` with each text that `send` sends to `name`, inside the `with` block. A name has one receiver.

        A text can be lost.
        """
        self._receiving[name] = on_text
        try:
            yield
        finally:
            del self._receiving[name]

    async def send(self, name: str, text: str) -> None:
        """Send a text to the receiver of `name`, on whichever replica it is. In this class, there is only one replica.

        The name must not contain a line break.
        """
        self.deliver_text(name, text)

    def deliver_text(self, name: str, text: str) -> None:
        """Give a text to the receiver of `name`, if it is on this replica."""
        on_text = self._receiving.get(name)
        if on_text is not None:
            on_text(text)

    def wake(self, name: str) -> None:
        """Wake the tasks of this replica that wait for `name`."""
        for on_wake in self._waiting.get(name, ()):
            on_wake()

    def wake_all(self) -> None:
        """Wake all waiting tasks of this replica, because wake-ups may have been lost."""
        for name in self._waiting:
            if not name.startswith(COMMAND_PREFIX):
                self.wake(name)

    async def wake_everywhere(self, name: str) -> None:
        """Wake the tasks of all replicas that wait for `name`. In this class, there is only one replica."""
        self.wake(name)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Get the wake-ups of other replicas while the context is open. This base class gets none."""
        yield


class RedisNotifier(Notifier):
    """Wake-ups over a Redis channel. To wake the tasks of all replicas, publish the name on `channel`."""

    def __init__(self, redis: "Redis", channel: str) -> None:
        super().__init__()
        self.channel = channel
        self._channel = Channel(redis, channel, "this replica finds the answers of clients late")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Get the wake-ups of all replicas while the context is open."""

        async def deliver(data: bytes) -> None:
            name, is_text, text = data.decode(errors="replace").partition("\n")
            if is_text:
                self.deliver_text(name, text)
            else:
                self.wake(name)

        async with self._channel.listening(deliver, self.wake_all):
            yield

    async def wake_everywhere(self, name: str) -> None:
        """Wake the tasks of all replicas that wait for `name`. Without Redis, wake only those of this replica."""
        try:
            with translate_redis_errors():
                await self._channel.redis.publish(self.channel, name)
        except OSError:
            self.wake(name)

    async def send(self, name: str, text: str) -> None:
        """Send a text to the receiver of `name`, on whichever replica it is. Without Redis, the text is lost."""
        with contextlib.suppress(OSError), translate_redis_errors():
            await self._channel.redis.publish(self.channel, f"{name}\n{text}")
