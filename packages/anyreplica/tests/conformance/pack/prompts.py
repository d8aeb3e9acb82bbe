"""Prompts without and with arguments, with a resource and with an image."""

from fastmcp.prompts import Message, prompt
from mcp_types import EmbeddedResource, ImageContent, TextResourceContents

from tests.conformance.pack._media import PNG


@prompt
async def test_simple_prompt() -> str:
    """Return a text."""
    return "This is a simple prompt for testing."


@prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Return a text that contains both arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803  # the suite's name
    """Return a resource and a text about it."""
    text = "Embedded resource content for testing."
    contents = TextResourceContents(uri=resourceUri, mime_type="text/plain", text=text)
    return [
        Message(EmbeddedResource(type="resource", resource=contents)),
        Message("Please process the embedded resource above."),
    ]


@prompt
async def test_prompt_with_image() -> list[Message]:
    """Return an image and a text about it."""
    return [
        Message(ImageContent(type="image", data=PNG, mime_type="image/png")),
        Message("Please analyze the image above."),
    ]
