"""Delivery of change events from one replica to the listeners on all replicas."""

import contextlib
import logging
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

from anyreplica.shared.notifier import Channel
from anyreplica.shared.outage import Outage

if TYPE_CHECKING:
    from redis.asyncio import Redis


logger = logging.getLogger(__name__)

_LISTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}
_KINDS = {event: kind for kind, event in _LISTS.items()}


class RedisBus(InMemorySubscriptionBus):
    """The SDK's `SubscriptionBus` over a Redis channel: every replica gets the events of all replicas.

    While Redis can't be reached, a replica delivers its events to its own listeners only. Lost events are not sent
    later, because the protocol has no replay. An event says only that something changed. A client that missed an event
    finds the change at its next request. All replicas of one server use the same `channel`, and no other server uses
    it.
    """

    def __init__(self, redis: "Redis", channel: str) -> None:
        super().__init__()
        self._channel = Channel(redis, channel, "this replica gets no change events of other replicas")
        self._outage = Outage(logger, "change events go to the listeners of this replica only")

    @classmethod
    def of(cls, redis: "Redis", server: str) -> "RedisBus":
        """Return the bus of a server, by its name."""
        return cls(redis, f"{server}:events")

    async def publish(self, event: ServerEvent) -> None:
        """Deliver an event to the listeners on all replicas; without Redis, only to those of this replica.

        If this replica is not yet connected to the channel again, its own listeners get the event directly.
        """
        with self._outage.best_effort():
            receives = self._channel.is_connected
            await self._channel.redis.publish(self._channel.name, encode(event))
            if receives:
                return
        await super().publish(event)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen to Redis while the context is open."""
        async with self._channel.listening(self._deliver):
            yield

    async def _deliver(self, data: bytes) -> None:
        event = decode(data)
        if event is None:
            logger.warning(
                "Message on channel %s ignored, because it is not a change event: %.100r", self._channel.name, data
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
