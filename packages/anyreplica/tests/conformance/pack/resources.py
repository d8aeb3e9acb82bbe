"""Resources: a text, an image, a template and a resource for subscriptions."""

import base64
import json

from fastmcp.resources import resource

from tests.conformance.pack._media import PNG


@resource("test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """Return a text."""
    return "This is the content of the static text resource."


@resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """Return an image."""
    return base64.b64decode(PNG)


@resource("test://template/{id}/data", mime_type="application/json")
async def template_data(id: str) -> str:  # noqa: A002  # the suite's name
    """Return the data that the URI names."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@resource("test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """Return a text. Clients can subscribe to this resource."""
    return "This is the content of the watched resource."
