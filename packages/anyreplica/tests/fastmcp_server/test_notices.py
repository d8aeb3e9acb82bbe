"""Tests of notifications that belong to no call: they reach the listeners of all replicas."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp_types as mt
import pytest
from mcp import Client
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged

from tests.fastmcp_server.clients import FAMILIES, conversation
from tests.replicas import Family, Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]
families = pytest.mark.parametrize("family", FAMILIES)

TEA = "stock://told/tea"


@asynccontextmanager
async def listening(fleet: Fleet) -> AsyncIterator[list[Any]]:
    """Listen at each replica with the stateless protocol."""
    lists = ("tools_list_changed", "prompts_list_changed", "resources_list_changed")
    wanted: dict[str, Any] = {**dict.fromkeys(lists, True), "resource_subscriptions": [TEA]}
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(f"{url}/mcp", cache=None)) for url in fleet.urls]
        yield [await stack.enter_async_context(each.listen(**wanted)) for each in clients]


@families
async def test_changed_lists(brought: Fleet, family: Family) -> None:
    """A tool that announces changed lists through its session reaches the listeners of all replicas."""
    async with listening(brought) as listeners, conversation(brought, family) as caller:
        await caller.call_tool("told_lists_changed")
        for each in listeners:
            heard = {await anext(each) for _ in range(3)}
            assert heard == {ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()}


@families
@pytest.mark.parametrize("tool", ["told_updated", "told_updated_in_session"])
async def test_updated_resource(brought: Fleet, family: Family, tool: str) -> None:
    """A tool that announces the update of a resource reaches the listeners of all replicas."""
    async with listening(brought) as listeners, conversation(brought, family) as caller:
        await caller.call_tool(tool, {"uri": "stock://told/coffee"})
        await caller.call_tool(tool, {"uri": TEA})
        for each in listeners:
            assert await anext(each) == ResourceUpdated(uri=TEA)


@families
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_session_hears_changes(brought: Fleet, family: Family) -> None:
    """A client of the handshake protocol hears changes on the event stream of its session, whoever announces them."""
    heard: asyncio.Queue[type[Any]] = asyncio.Queue()

    async def hear(message: Any) -> None:
        heard.put_nowait(type(message))

    lists = {mt.ToolListChangedNotification, mt.PromptListChangedNotification, mt.ResourceListChangedNotification}
    wanted = {*lists, mt.ResourceUpdatedNotification}
    async with (
        conversation(brought, "handshake", message_handler=hear) as listener,
        conversation(brought, family) as caller,
    ):
        await listener.session.subscribe_resource(TEA)
        while wanted:  # the first changes may come before the client has opened its event stream
            await caller.call_tool("told_lists_changed")
            await caller.call_tool("told_updated_in_session", {"uri": TEA})
            wanted.discard(await heard.get())
