"""The public function that notifies clients of a change.

The events come from the MCP SDK: `ToolsListChanged()`, `PromptsListChanged()`, `ResourcesListChanged()` and
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

__all__ = ["PromptsListChanged", "ResourceUpdated", "ResourcesListChanged", "ToolsListChanged", "publish", "use_bus"]

_buses: list[SubscriptionBus] = []


async def publish(event: ServerEvent) -> None:
    """Send an event to all clients that listen (`subscriptions/listen`, protocol version 2026-07-28) on any replica.

    The function does nothing if no client listens or if the settings disable subscriptions.

    Example:

        from anyreplica import ResourceUpdated, publish

        async def take_order(order: str) -> None:
            await publish(ResourceUpdated(uri="orders://today"))
    """
    for bus in _buses:
        await bus.publish(event)


def use_bus(bus: SubscriptionBus) -> None:
    """Publish over `bus` from now on. The server calls this function when it starts."""
    _buses[:] = [bus]
