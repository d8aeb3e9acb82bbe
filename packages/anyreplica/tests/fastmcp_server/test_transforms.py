"""Tests of each kind of transform, on any replica."""

import json

import pytest

from tests.fastmcp_server.clients import FAMILIES, conversation, said, tools
from tests.replicas import Family, Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis"), pytest.mark.parametrize("family", FAMILIES)]


async def test_namespace_and_tool_transforms(brought: Fleet, family: Family) -> None:
    """A transformed tool has its new name, description and arguments; the old ones are gone."""
    async with conversation(brought, family) as client:
        assert await tools(client, "renamed_") == ["inner_leave", "welcome"]
        (tool,) = [each for each in await client.list_tools() if each.name == "renamed_welcome"]
        assert tool.description == "Welcome somebody."
        assert list(tool.input_schema["properties"]) == ["guest"]
        assert await said(client, "renamed_welcome", guest="Ada") == "Hello, Ada!"
        assert await said(client, "renamed_inner_leave", name="Ada") == "Bye, Ada!"
        assert await said(client, "renamed_inner_greet", name="Ada") == "Unknown tool: 'renamed_inner_greet'"
        assert (await client.call_tool("renamed_welcome", {"name": "Ada"}, raise_on_error=False)).is_error


async def test_search(brought: Fleet, family: Family) -> None:
    """A search finds tools that are not listed, and calls them."""
    async with conversation(brought, family) as client:
        assert await tools(client, "searched_") == ["call_tool", "search_tools"]
        found = await said(client, "searched_search_tools", query="hot water for tea")
        assert [each["name"] for each in (json.loads(found) if isinstance(found, str) else found)] == ["boil_water"]
        assert await said(client, "searched_call_tool", name="boil_water", arguments={"litres": 2}) == "2.0 l boiled"


async def test_resources_and_prompts_as_tools(brought: Fleet, family: Family) -> None:
    """Tools list and read resources, and list and render prompts."""
    async with conversation(brought, family) as client:
        assert await tools(client, "listed_") == ["get_prompt", "list_prompts", "list_resources", "read_resource"]
        assert "note://today" in str(await said(client, "listed_list_resources"))
        assert "water the plants" in str(await said(client, "listed_read_resource", uri="note://today"))
        assert "plan" in str(await said(client, "listed_list_prompts"))
        plan = await said(client, "listed_get_prompt", name="plan", arguments={"topic": "tea"})
        assert "Make a plan for tea." in str(plan)


async def test_version_filter_and_visibility(brought: Fleet, family: Family) -> None:
    """Only the versions that a filter lets pass are served, and no tools that are hidden by tag or by key."""
    async with conversation(brought, family) as client:
        assert await said(client, "old_convert", value=3) == "old 3"
        assert (await client.call_tool("old_convert", {"value": 3}, version="1.0")).data == "old 3"
        assert (await client.call_tool("old_convert", {"value": 3}, version="2.0", raise_on_error=False)).is_error
        assert await tools(client, "partly_") == ["count", "report"]
        assert await said(client, "partly_count") == 3
        assert await said(client, "partly_erase") == "Unknown tool: 'partly_erase'"
        assert await said(client, "partly_report") == "first"
