"""For tool authors: tell clients that something changed.

The events are the MCP SDK's: `ToolsListChanged()`, `PromptsListChanged()`, `ResourcesListChanged()` and
`ResourceUpdated(uri=…)`.
"""

from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)

__all__ = ["PromptsListChanged", "ResourceUpdated", "ResourcesListChanged", "ToolsListChanged", "publish", "use"]

_buses: list[SubscriptionBus] = []


async def publish(event: ServerEvent) -> None:
    """Tell all clients that listen (`subscriptions/listen`, protocol 2026-07-28), whichever replica they listen on.

    Nothing happens without listeners, or where the settings offer no subscriptions.

    Example:

        from mcp_swarm import ResourceUpdated, publish

        async def take_order(order: str) -> None:
            await publish(ResourceUpdated(uri="orders://today"))
    """
    for bus in _buses:
        await bus.publish(event)


def use(bus: SubscriptionBus) -> None:
    """Publish over `bus` from now on. The server's own call, when it starts."""
    _buses[:] = [bus]
