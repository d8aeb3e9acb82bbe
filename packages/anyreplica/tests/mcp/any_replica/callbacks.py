"""The answers of a client of the MCP SDK to the questions of a server."""

import mcp_types as mt
from mcp.client.context import ClientRequestContext
from pydantic import FileUrl


async def elicit(context: ClientRequestContext, params: mt.ElicitRequestParams) -> mt.ElicitResult:
    """Answer every form with the same values, as a user."""
    return mt.ElicitResult(action="accept", content={"value": "Ada", "name": "Ada", "color": "blue", "ok": True})


async def sample(context: ClientRequestContext, params: mt.CreateMessageRequestParams) -> mt.CreateMessageResult:
    """Answer every prompt with the same text, as a model."""
    return mt.CreateMessageResult(role="assistant", content=mt.TextContent(type="text", text="Paris"), model="test")


async def roots(context: ClientRequestContext) -> mt.ListRootsResult:
    """Return one folder, as a client."""
    return mt.ListRootsResult(roots=[mt.Root(uri=FileUrl("file:///work"))])


def said(result: mt.CallToolResult) -> str:
    """Return the text of a tool's result."""
    (content,) = result.content
    assert isinstance(content, mt.TextContent)
    return content.text
