"""The answers of a client of the MCP SDK to the questions of a server."""

from mcp.client.context import ClientRequestContext
from mcp_types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import FileUrl


async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Answer every form with the same values, as a user."""
    return ElicitResult(action="accept", content={"value": "Ada", "name": "Ada", "color": "blue", "ok": True})


async def sample(context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Answer every prompt with the same text, as a model."""
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Paris"), model="test")


async def roots(context: ClientRequestContext) -> ListRootsResult:
    """Return one folder, as a client."""
    return ListRootsResult(roots=[Root(uri=FileUrl("file:///work"))])


def said(result: CallToolResult) -> str:
    """Return the text of a tool's result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text
