"""Clients of both protocol families."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp.client.client import CallToolResult
from fastmcp.client.transports import StreamableHttpTransport
from mcp_types import TextContent, TextResourceContents

from tests.replicas import Family, Fleet

FAMILIES: list[Family] = ["handshake", "stateless"]
REPLICAS = 3
_MODES = {"handshake": "legacy", "stateless": "2026-07-28"}

AnyClient = Client[StreamableHttpTransport]


@asynccontextmanager
async def conversation(fleet: Fleet, family: Family, token: str = "", **options: Any) -> AsyncIterator[AnyClient]:
    """A client whose requests go to one replica after the other. It keeps no lists, and has 60 s for all it does."""
    headers = {"X-Test": family, **({"Authorization": f"Bearer {token}"} if token else {})}
    transport = StreamableHttpTransport(f"{fleet.url}/mcp", headers=headers)
    given = {"mode": _MODES[family], "cache": False, **options}
    async with asyncio.timeout(60), Client(transport, **given) as opened:
        yield opened


async def said(opened: AnyClient, tool: str, **arguments: Any) -> Any:
    """Call a tool once at each replica. Return its structured content or its text, which all replicas must agree on."""
    results = [await opened.call_tool(tool, arguments, raise_on_error=False) for _ in range(REPLICAS)]
    first, *others = [value_of(each) for each in results]
    assert all(each == first for each in others), (tool, results)
    return first


def value_of(result: CallToolResult) -> Any:
    """Return what a tool's result says: its structured content, or its text."""
    structured = result.structured_content
    if structured is not None:
        return structured["result"] if structured.keys() == {"result"} else structured
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def read(opened: AnyClient, uri: str) -> str:
    """Read a resource once at each replica and return its text, which all replicas must agree on."""
    texts = set()
    for _ in range(REPLICAS):
        (contents,) = await opened.read_resource(uri)
        assert isinstance(contents, TextResourceContents)
        texts.add(contents.text)
    (text,) = texts
    return text


async def prompted(opened: AnyClient, prompt: str, **arguments: str) -> str:
    """Render a prompt once at each replica and return its text, which all replicas must agree on."""
    texts = set()
    for _ in range(REPLICAS):
        (message,) = (await opened.get_prompt(prompt, arguments)).messages
        assert isinstance(message.content, TextContent)
        texts.add(message.content.text)
    (text,) = texts
    return text


async def tools(opened: AnyClient, prefix: str) -> list[str]:
    """List the tools once at each replica. Return the names with a prefix, without it."""
    lists = [await opened.list_tools() for _ in range(REPLICAS)]
    names = [[each.name for each in listed] for listed in lists]
    assert all(each == names[0] for each in names)
    return sorted(name.removeprefix(prefix) for name in names[0] if name.startswith(prefix))
