"""A document."""

from fastmcp.resources import resource

DOCUMENT = "A line of a document that somebody may want to read.\n" * 200


@resource("text://document", mime_type="text/plain")
async def document() -> str:
    """Ten kilobytes of text."""
    return DOCUMENT
