"""For tool authors: tell clients that something changed.

    from mcp_swarm.shared.publish import ResourceUpdated, publish

    await publish(ResourceUpdated(uri="orders://today"))

A client that listens (`subscriptions/listen`, protocol 2026-07-28) hears of it on whichever replica it listens.
"""

import logging

from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)

__all__ = ["PromptsListChanged", "ResourceUpdated", "ResourcesListChanged", "ToolsListChanged", "publish", "use"]

logger = logging.getLogger(__name__)

_buses: list[SubscriptionBus] = []


async def publish(event: ServerEvent) -> None:
    """Tell everybody who listens; without listeners, or where listening isn't offered, nothing happens."""
    for bus in _buses:
        await bus.publish(event)


def use(bus: SubscriptionBus) -> None:
    """Publish over `bus` from now on. The server's own call, when it starts."""
    _buses[:] = [bus]
