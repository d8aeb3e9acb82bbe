"""Resources: a text, a picture, a template, and one that is watched."""

import base64
import json

from fastmcp.resources import resource

from tests.conformance.pack._media import PNG


@resource("test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """Read a text."""
    return "This is the content of the static text resource."


@resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """Read a picture."""
    return base64.b64decode(PNG)


@resource("test://template/{id}/data", mime_type="application/json")
async def template_data(id: str) -> str:  # noqa: A002  # the suite's name
    """Read what the URI names."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@resource("test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """Read what clients subscribe to."""
    return "This is the content of the watched resource."
