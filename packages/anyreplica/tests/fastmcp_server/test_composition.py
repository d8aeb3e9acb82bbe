"""Tests of mounted servers and of servers from other sources, on any replica."""

import asyncio

import pytest

from tests.fastmcp_server.clients import FAMILIES, conversation, prompted, read, said, tools
from tests.replicas import Family, Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis"), pytest.mark.parametrize("family", FAMILIES)]


async def test_mounted_servers(brought: Fleet, family: Family) -> None:
    """Mounted servers answer under their namespaces, and a call passes the middleware of each on its way once."""
    async with conversation(brought, family) as client:
        assert await tools(client, "library_") == ["opening_hours", "shelves_find", "who_serves"]
        assert await said(client, "add", a=2) == 3
        assert await said(client, "library_opening_hours") == "9 to 5"
        assert await said(client, "library_shelves_find", title="Emma") == "Emma: 4"
        assert await said(client, "library_who_serves") == "desk"
        assert await read(client, "shelf://library/shelves/7") == "shelf 7"
        assert await read(client, "desk://library/rules") == "Be quiet."
        assert await prompted(client, "library_ask_for", title="Emma") == "Do you have Emma?"
        stamped = "Emma: 4, shelves, library, root"
        assert await said(client, "library_shelves_find", title="Emma", stamped=True) == stamped
        assert await said(client, "library_shelves_lose") == "Unknown tool: 'library_shelves_lose'"


async def test_openapi(brought: Fleet, family: Family) -> None:
    """The operations of an API are tools and resources."""
    async with conversation(brought, family) as client:
        assert await tools(client, "weather_") == ["forecast", "report"]
        assert await said(client, "weather_forecast", city="Rome", days=2) == {"city": "Rome", "days": 2}
        assert await said(client, "weather_report", text="sun") == {"received": "sun"}
        assert await read(client, "resource://weather/cities") == '["Bonn", "Rome"]'


async def test_proxy(brought: Fleet, family: Family) -> None:
    """A proxy passes calls on to another server, whose progress reaches the client while the call runs."""
    heard: asyncio.Queue[float] = asyncio.Queue()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.put_nowait(progress)

    async with conversation(brought, family) as client:
        assert await tools(client, "proxied_") == ["arrive", "far_away", "journey"]
        assert await said(client, "proxied_far_away", place="Rome") == {"place": "Rome", "server": "upstream"}
        assert await read(client, "far://proxied/Rome") == "Rome is far away"
        assert await prompted(client, "proxied_travel", place="Rome") == "How do I get to Rome?"

        journey = asyncio.create_task(client.call_tool("proxied_journey", progress_handler=progress))
        assert await heard.get() == 1
        await client.call_tool("proxied_arrive")
        assert (await journey).data == "arrived"


async def test_files(brought: Fleet, family: Family) -> None:
    """Components that a provider finds in files are served. The files of skills are resources."""
    async with conversation(brought, family) as client:
        assert await said(client, "inches", centimetres=254) == 100
        assert await read(client, "measure://mile") == "mile is a measure"
        assert await prompted(client, "convert", text="3 miles") == "Convert 3 miles."
        assert "Say hello" in await read(client, "skill://greeting/SKILL.md")
        assert "words.txt" in await read(client, "skill://greeting/_manifest")
        assert (await read(client, "skill://greeting/words.txt")).startswith("Good evening")
