"""Tests that what an author writes about the server and its components reaches the clients of any replica."""

from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp_types import Icon

from tests.calls import legacy, modern
from tests.fastmcp_server.clients import FAMILIES, REPLICAS, conversation, prompted, read, said
from tests.fastmcp_server.served.catalogue import ICON
from tests.replicas import Family, Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]
families = pytest.mark.parametrize("family", FAMILIES)


@families
async def test_the_server(brought: Fleet, family: Family) -> None:
    """The name, version, icons, address and instructions of the server are those of its author."""
    for _ in range(REPLICAS):
        async with conversation(brought, family, mode="legacy" if family == "handshake" else "auto") as client:
            server = client.server_info
            assert server is not None
            assert (server.name, server.version) == ("everything", "1.2.3")
            assert server.website_url == "https://example.com/everything"
            assert server.icons == [Icon(src="https://example.com/everything.png")]
            assert client.instructions == "Everything that FastMCP offers."


@families
async def test_tool_versions(brought: Fleet, family: Family) -> None:
    """The newest version of a tool is listed and called; a client can call an older one."""
    async with conversation(brought, family) as client:
        assert await said(client, "catalogue_quote", item="tea") == {"amount": 3.0, "currency": "EUR"}
        for _ in range(REPLICAS):
            (tool,) = [each for each in await client.list_tools() if each.name == "catalogue_quote"]
            assert tool.meta is not None
            assert tool.meta["fastmcp"]["version"] == "2"
            assert tool.meta["fastmcp"]["versions"] == ["2", "1"]
            older = await client.call_tool("catalogue_quote", {"item": "tea"}, version="1")
            assert older.structured_content == {"amount": 1.0, "currency": "DEM"}


@families
async def test_icons_and_annotations(brought: Fleet, family: Family) -> None:
    """Components have their icons, annotations, titles, tags and schemas."""
    async with conversation(brought, family) as client:
        for _ in range(REPLICAS):
            (tool,) = [each for each in await client.list_tools() if each.name == "catalogue_described"]
            assert (tool.title, tool.icons) == ("A described tool", [ICON])
            assert tool.annotations is not None
            assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
            assert tool.meta is not None
            assert (tool.meta["owner"], tool.meta["fastmcp"]["tags"]) == ("sales", ["public"])
            assert tool.output_schema == {"type": "object", "properties": {"done": {"type": "boolean"}}}
            (resource,) = [each for each in await client.list_resources() if str(each.uri).startswith("price:")]
            assert (resource.icons, resource.mime_type) == ([ICON], "application/json")
            (prompt,) = [each for each in await client.list_prompts() if each.name == "catalogue_haggle"]
            assert prompt.icons == [ICON]
        assert await said(client, "catalogue_described") == {"done": True}
        assert await read(client, "price://catalogue/list") == '{"tea": 3}'
        assert await prompted(client, "catalogue_haggle", item="tea") == "What about half the price for tea?"


@families
async def test_apps(brought: Fleet, family: Family) -> None:
    """A tool of an app names its user interface, which is a resource of every replica."""
    async with conversation(brought, family) as client:
        for _ in range(REPLICAS):
            listed = {each.name: each for each in await client.list_tools()}
            meta = listed["chart"].meta or {}
            assert meta["ui"]["resourceUri"] == "ui://chart/view.html"
            assert (listed["more_values"].meta or {})["ui"]["visibility"] == ["app"]
            (resource,) = [each for each in await client.list_resources() if str(each.uri) == "ui://chart/view.html"]
            assert resource.mime_type == "text/html;profile=mcp-app"
            (contents,) = await client.read_resource("ui://chart/view.html")
            assert contents.mime_type == "text/html;profile=mcp-app"
            assert (contents.meta or {})["ui"]["prefersBorder"] is True
        assert await read(client, "ui://chart/view.html") == "<html><body>chart</body></html>"
        assert await said(client, "chart", values=[1, 2]) == {"values": [1, 2]}
        assert await said(client, "more_values") == [4, 5]


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
def test_cache_hints(brought: Fleet, method: str) -> None:
    """Each list says for how long a client may keep it. Only protocol version 2026-07-28 has these hints."""
    for replica in brought.replicas:
        hint = modern(replica.url, method).json()["result"]
        assert (hint["ttlMs"], hint["cacheScope"]) == (60_000, "public")
        assert "ttlMs" not in legacy(replica.url, method).json()["result"]
    found = modern(brought.url, "resources/read", {"uri": "desk://library/rules"}).json()["result"]
    assert (found["ttlMs"], found["cacheScope"]) == (60_000, "public")
    assert modern(brought.url, "server/discover").json()["result"]["ttlMs"] == 60_000


async def test_a_client_with_a_cache_lists_once(brought: Fleet) -> None:
    """A client that keeps lists for as long as the hint says asks only once (protocol version 2026-07-28)."""
    sent: list[str] = []

    async def note(request: httpx2.Request) -> None:
        sent.append(request.headers.get("mcp-method", ""))

    def http(*_: Any, **__: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(event_hooks={"request": [note]}, timeout=60)

    transport = StreamableHttpTransport(f"{brought.url}/mcp", httpx_client_factory=http)
    async with Client(transport, mode="auto", cache=True) as client:
        first = await client.list_tools()
        for _ in range(REPLICAS):
            assert await client.list_tools() == first
    assert sent.count("tools/list") == 1
