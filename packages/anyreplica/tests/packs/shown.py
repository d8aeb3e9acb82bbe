"""Components for tests of the console: texts in formats, links, files, questions with an address, and slow work."""

import asyncio
from datetime import date, datetime, time
from typing import Annotated, Any, Literal

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult, tool
from mcp_types import (
    BlobResourceContents,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    EmbeddedResource,
    InputRequiredResult,
    ResourceLink,
    TextResourceContents,
)
from pydantic import AnyUrl, Field

from anyreplica import Progress, job
from tests.conformance.pack._media import PNG

ZIP = "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="
"""An archive without files, in Base64."""


@tool(annotations={"readOnlyHint": True})
async def formats(
    day: date,
    hour: time,
    moment: datetime,
    mail: Annotated[str, Field(json_schema_extra={"format": "email"})],
    site: AnyUrl,
    pair: tuple[int, str],
    size: Literal["small", "large"] = "large",
    times: int = 3,
    note: str = "nothing",
    wanted: bool = True,
) -> dict[str, Any]:
    """Return all arguments."""
    return {
        "day": day.isoformat(),
        "hour": hour.isoformat(),
        "moment": moment.isoformat(),
        "mail": mail,
        "site": str(site),
        "pair": list(pair),
        "size": size,
        "times": times,
        "note": note,
        "wanted": wanted,
    }


@tool(annotations={"readOnlyHint": True, "openWorldHint": True})
async def links() -> ToolResult:
    """Return a link to the web, one to a resource of this server, and one to a resource that no list has."""
    addresses = {"page": "https://example.com/page", "about": "template://about", "lost": "lost://thing"}
    found = [ResourceLink(type="resource_link", name=name, uri=uri) for name, uri in addresses.items()]
    return ToolResult(content=[*found])


@tool(annotations={"readOnlyHint": True})
async def files() -> ToolResult:
    """Return three embedded resources: a text, an image, and an archive."""
    contents = (
        TextResourceContents(uri="shown://notes.txt", mime_type="text/plain", text="some notes"),
        BlobResourceContents(uri="shown://red.png", mime_type="image/png", blob=PNG),
        BlobResourceContents(uri="shown://all.zip", mime_type="application/zip", blob=ZIP),
    )
    return ToolResult(content=[EmbeddedResource(type="resource", resource=each) for each in contents])


@tool(annotations={"readOnlyHint": True})
async def open_address(url: str, ctx: Context) -> str | InputRequiredResult:
    """Ask the user to open an address, and return what the user did."""
    for answer in (ctx.input_responses or {}).values():
        if isinstance(answer, ElicitResult):
            return f"The user chose {answer.action}."
    asked = ElicitRequestURLParams(message="Please log in.", url=url, elicitation_id="login-1")
    return InputRequiredResult(input_requests={"address": ElicitRequest(params=asked)})


@tool(annotations={"readOnlyHint": True})
async def fail_with(text: str) -> str:
    """Fail with a text."""
    raise ToolError(text)


@tool(annotations={"readOnlyHint": True})
async def pause() -> str:
    """Return after a tenth of a second."""
    await asyncio.sleep(0.1)
    return "paused"


@job
async def count_slowly(progress: Progress) -> str:
    """Report a progress that rises, then wait for ten minutes."""
    for step in range(100):
        await progress(step, f"step {step}")
        await asyncio.sleep(0.2)
    await asyncio.sleep(600)
    return "counted"


@job
async def fails_slowly(times: Annotated[int, Field(ge=0)], progress: Progress) -> str:
    """Report progress some times, then fail."""
    for step in range(times):
        await progress(step, f"page {step}")
    raise ToolError(f"There is no page {times}.")
