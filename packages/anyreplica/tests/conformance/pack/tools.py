"""Tools that need no answer from the client: each kind of content, an error, log messages, progress."""

import asyncio

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from mcp import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from tests.conformance.pack._media import PNG, WAV


@tool
async def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool
async def test_image_content() -> ImageContent:
    """Return an image."""
    return ImageContent(type="image", data=PNG, mime_type="image/png")


@tool
async def test_audio_content() -> AudioContent:
    """Return a sound."""
    return AudioContent(type="audio", data=WAV, mime_type="audio/wav")


@tool
async def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    return _embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@tool
async def test_multiple_content_types() -> list[ContentBlock]:
    """Return a text, an image and a resource."""
    return [
        TextContent(type="text", text="Multiple content types test:"),
        ImageContent(type="image", data=PNG, mime_type="image/png"),
        _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@tool
async def test_error_handling() -> str:
    """Fail with an error message."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages, 50 ms apart."""
    await ctx.info("Tool execution started")
    await asyncio.sleep(0.05)
    await ctx.info("Tool processing data")
    await asyncio.sleep(0.05)
    await ctx.info("Tool execution completed")
    return "Three messages were logged."


@tool
async def test_logging_tool(ctx: Context) -> str:
    """Log a message. Only a client that has requested a log level may receive it."""
    await ctx.info("This message is for callers that asked for messages")
    return "One message was logged."


@tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times, 50 ms apart."""
    await ctx.report_progress(0, 100)
    await asyncio.sleep(0.05)
    await ctx.report_progress(50, 100)
    await asyncio.sleep(0.05)
    await ctx.report_progress(100, 100)
    return "Progress was reported three times."


@tool
async def test_missing_capability(ctx: Context) -> str:
    """Refuse a client that does not declare sampling."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling", {"requiredCapabilities": {"sampling": {}}}
        )
    return "You declared sampling."


@tool
async def test_reconnection(ctx: Context) -> str:
    """Close the reply's stream early. A client with a session fetches the result with a second request."""
    await ctx.close_sse_stream()
    await asyncio.sleep(0.1)
    return "This came after the reconnection."


def _embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))
