"""Delivery of change events from one replica to the listeners on all replicas."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import orjson
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from mcp_swarm.process.meanwhile import meanwhile
from mcp_swarm.shared.lost_redis import reason

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_LISTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}
_KINDS = {event: kind for kind, event in _LISTS.items()}
_FIRST_RETRY, _LAST_RETRY = 0.2, 10.0
_START_SECONDS = 1.0


class RedisBus(InMemorySubscriptionBus):
    """The SDK's `SubscriptionBus` over a Redis channel: every replica gets the events of all replicas.

    While Redis can't be reached, a replica delivers its events to its own listeners only. Lost events are not sent
    later, because the protocol has no replay: an event says only that something changed, and a client that missed it
    finds the change at its next request. All replicas of one server use the same `channel`, and no other server uses
    it.
    """

    def __init__(self, redis: "Redis", channel: str) -> None:
        super().__init__()
        self._redis = redis
        self._channel = channel

    async def publish(self, event: ServerEvent) -> None:
        """Deliver an event to the listeners on all replicas; without Redis, only to those of this replica."""
        from redis.exceptions import RedisError  # noqa: PLC0415  # as in mcp_swarm.shared.redis

        try:
            await self._redis.publish(self._channel, encode(event))
        except (RedisError, OSError) as error:
            logger.warning(
                "Redis can't be reached: %r goes to the listeners of this replica only: %s", event, reason(error)
            )
            await super().publish(event)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen to Redis while the context is open.

        The start waits for Redis for at most one second and then goes on without it.
        """
        listening = asyncio.Event()
        async with meanwhile(self._listen(listening)):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(listening.wait(), _START_SECONDS)
            yield

    async def _listen(self, listening: asyncio.Event) -> None:
        from redis.exceptions import RedisError  # noqa: PLC0415

        pause = _FIRST_RETRY
        while True:
            try:
                async with self._redis.pubsub(ignore_subscribe_messages=False) as subscription:
                    await subscription.subscribe(self._channel)
                    async for message in subscription.listen():
                        if message["type"] == "subscribe":
                            listening.set()
                            pause = _FIRST_RETRY
                        elif message["type"] == "message":
                            await self._deliver(message["data"])
            except (RedisError, OSError) as error:
                logger.warning(
                    "Redis can't be reached: this replica gets no change events of other replicas: %s", reason(error)
                )
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  # spreads the retries of the replicas
            pause = min(2 * pause, _LAST_RETRY)

    async def _deliver(self, data: bytes) -> None:
        event = decode(data)
        if event is None:
            logger.warning(
                "Message on channel %s ignored, because it is not a change event: %.100r", self._channel, data
            )
        else:
            await super().publish(event)


def encode(event: ServerEvent) -> bytes:
    """Return an event as JSON: `{"kind": "resource", "uri": "…"}`."""
    if isinstance(event, ResourceUpdated):
        return orjson.dumps({"kind": "resource", "uri": event.uri})
    return orjson.dumps({"kind": _KINDS[event]})


def decode(data: bytes) -> ServerEvent | None:
    """Return the event that `encode` wrote, or None for any other data."""
    try:
        fields = orjson.loads(data)
        if fields["kind"] == "resource":
            uri = fields["uri"]
            return ResourceUpdated(uri=uri) if isinstance(uri, str) else None
        return _LISTS[fields["kind"]]
    except (ValueError, TypeError, KeyError):
        return None
