"""Wake-ups: when something changes, a replica wakes the tasks that wait for the change, on any replica."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from mcp_swarm.shared.channel import Channel

if TYPE_CHECKING:
    from redis.asyncio import Redis


class Wakeups:
    """The waiting tasks of this replica, by the name of the thing that each task waits for.

    A wake-up contains no data and can be lost. So a task looks first, waits for a wake-up for a limited time, and looks
    again.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Event]] = {}

    @contextlib.contextmanager
    def waiting(self, name: str) -> Iterator[asyncio.Event]:
        """Return an event that is set when `name` is woken. Clear the event before each look."""
        event = asyncio.Event()
        self._waiting.setdefault(name, []).append(event)
        try:
            yield event
        finally:
            events = self._waiting[name]
            events.remove(event)
            if not events:
                del self._waiting[name]

    def wake(self, name: str) -> None:
        """Wake the tasks of this replica that wait for `name`."""
        for event in self._waiting.get(name, ()):
            event.set()

    def wake_all(self) -> None:
        """Wake all waiting tasks of this replica, because wake-ups may have been lost."""
        for name in self._waiting:
            self.wake(name)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Get the wake-ups of other replicas while the context is open. This base class gets none."""
        yield


class RedisWakeups(Wakeups):
    """Wake-ups over a Redis channel. To wake the tasks of all replicas, publish the name on `channel`."""

    def __init__(self, redis: "Redis", channel: str) -> None:
        super().__init__()
        self.channel = channel
        self._channel = Channel(redis, channel, "this replica finds the answers of clients late")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Get the wake-ups of all replicas while the context is open."""

        async def deliver(data: bytes) -> None:
            self.wake(data.decode(errors="replace"))

        async with self._channel.listening(deliver, self.wake_all):
            yield
