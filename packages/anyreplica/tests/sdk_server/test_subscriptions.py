"""Subscriptions of a server of the SDK. anyreplica serves the event streams, and the author's objects control them."""

import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

from anyreplica import create_app
from anyreplica.testing import serve


@pytest.mark.anyio
async def test_the_handler_of_the_author_ends_the_event_streams() -> None:
    """After `ListenHandler.close()`, a client gets the events before it, and may listen again."""
    bus = InMemorySubscriptionBus()
    handler = ListenHandler(bus)
    server = Server("subscriptions", on_subscriptions_listen=handler)
    async with serve(lambda: create_app(server)) as served, Client(f"{served.url}/mcp") as client:
        for _ in range(2):
            async with client.listen(tools_list_changed=True) as events:
                await bus.publish(ToolsListChanged())
                handler.close()
                assert [event async for event in events] == [ToolsListChanged()]
