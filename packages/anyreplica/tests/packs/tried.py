"""Components for tests of the console: every kind of argument, and texts that a hostile tool could show."""

import asyncio
import time
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from fastmcp import Context
from fastmcp.prompts import prompt
from fastmcp.resources import resource
from fastmcp.server.elicitation import AcceptedElicitation
from fastmcp.tools import ToolResult, tool
from mcp_types import ResourceLink, TextContent
from pydantic import BaseModel, Field

MARKUP = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


class Colour(Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """A place. It may be in another place."""

    city: str
    zip_code: int | None = None
    inside: "Place | None" = None


class Endless(BaseModel):
    """A value that would have to contain itself."""

    first: "Endless"
    second: "Endless"


class Circle(BaseModel):
    """A shape."""

    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    """Another shape."""

    kind: Literal["square"]
    side: float


@tool(annotations={"readOnlyHint": True})
async def every_kind(
    text: Annotated[str, Field(description="Any text", min_length=1)],
    number: Annotated[int, Field(ge=1, le=9)],
    colour: Colour,
    sure: bool,
    places: list[Place],
    ratio: float = 0.5,
    counts: dict[str, int] | None = None,
    shape: Circle | Square | None = None,
    anything: Any = None,
) -> dict[str, Any]:
    """Return all arguments."""
    return {
        "text": text,
        "number": number,
        "colour": colour.value,
        "sure": sure,
        "places": [place.model_dump(exclude_none=True) for place in places],
        "ratio": ratio,
        "counts": counts,
        "shape": None if shape is None else shape.model_dump(),
        "anything": anything,
    }


@tool(annotations={"readOnlyHint": True})
async def next_number(number: int, anything: Any = None) -> dict[str, Any]:
    """Return a number, the next one, and any value."""
    return {"number": number, "next": number + 1, "anything": anything}


@tool(annotations={"readOnlyHint": True})
async def flood(messages: int, blocks: int, characters: int, ctx: Context) -> ToolResult:
    """Report progress very often, then return a text of many characters and many blocks."""
    for number in range(messages):
        await ctx.report_progress(number, messages, f"message {number}")
    content = [TextContent(type="text", text=f"block {number}") for number in range(blocks)]
    return ToolResult(content=[TextContent(type="text", text="x" * characters), *content])


@tool
async def write_down(text: str) -> str:
    """Change something, and return the text."""
    return text


@tool(
    annotations={"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    meta={"securitySchemes": [{"type": "oauth2", "scopes": ["notes.write", "notes.read"]}]},
)
async def add_once() -> str:
    """Say what the tool may do."""
    return "added"


@tool(annotations={"destructiveHint": True})
async def remove_all() -> str:
    """Change something."""
    return "Everything is removed."


@tool(annotations={"readOnlyHint": True})
async def ask_and_report(ctx: Context) -> str:
    """Ask for a name, and report progress until the answer comes."""
    question = asyncio.ensure_future(ctx.elicit("What is your name?", str))
    rounds = 0
    while not (await asyncio.wait([question], timeout=0.1))[0]:
        rounds += 1
        await ctx.report_progress(rounds, message="still waiting")
    answer = question.result()
    return f"Hello, {answer.data}!" if isinstance(answer, AcceptedElicitation) else answer.action


def _wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.05)


@tool(annotations={"readOnlyHint": True})
async def ask_twice(file: str, ctx: Context) -> str:
    """Ask for a name until a file exists. Then withdraw the question, and ask for a town."""
    question = asyncio.ensure_future(ctx.elicit("What is your name?", str))
    await asyncio.to_thread(_wait_for, Path(file))
    question.cancel()
    answer = await ctx.elicit("Which town?", str)
    return f"From {answer.data}." if isinstance(answer, AcceptedElicitation) else answer.action


@tool(title=MARKUP, description=MARKUP, annotations={"readOnlyHint": True, "title": MARKUP})
async def hostile(
    field: Annotated[Literal["<b>bold</b>", "other"], Field(title=MARKUP, description=MARKUP)], ctx: Context
) -> ToolResult:
    """Answer with markup in each place."""
    await ctx.info(MARKUP)
    await ctx.report_progress(1, 2, MARKUP)
    content = [
        TextContent(type="text", text=MARKUP),
        ResourceLink(type="resource_link", name=MARKUP, uri="javascript:document.title='taken'"),
        ResourceLink(type="resource_link", name="data", uri=f"data:text/html,{MARKUP}"),
    ]
    return ToolResult(content=content, structured_content={"field": field, MARKUP: MARKUP})


@tool(annotations={"readOnlyHint": True})
async def never_ending(
    value: Endless,
    many: Annotated[str, Field(json_schema_extra={"enum": [f"choice {index}" for index in range(5000)]})],
    constructor: str = "c",
) -> str:
    """Have a form that never ends, and a list of 5,000 choices."""
    return f"{value} {many} {constructor}"


@prompt
async def hostile_prompt(topic: str) -> str:
    """Return markup."""
    return f"{MARKUP} {topic}"


@resource("tried://markup", mime_type="text/html", description=MARKUP)
async def markup() -> str:
    """Return markup."""
    return MARKUP
