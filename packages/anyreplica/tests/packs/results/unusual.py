"""Results that the fast path may hand over to FastMCP for the conversion."""

from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from fastmcp.tools import ToolResult, tool
from fastmcp.utilities.types import Audio, File, Image
from mcp_types import (
    Annotations,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, PlainSerializer, RootModel

_PIXEL = b"\x89PNG\r\n\x1a\n"


class Color(Enum):
    """An enum."""

    RED = "red"
    DEEP = 3


class Size(IntEnum):
    """An enum whose members are numbers."""

    SMALL = 1


class Word(str):
    """A subclass of str."""

    __slots__ = ()


class Opaque:
    """An object that JSON cannot represent. FastMCP writes it as text."""

    def __str__(self) -> str:
        return "opaque"


class Names(RootModel[list[str]]):
    """A model that is not a JSON object."""


class Place(NamedTuple):
    """A named tuple."""

    x: int
    y: int


class Base(BaseModel):
    """The declared model."""

    a: int = 1


class Derived(Base):
    """The returned model."""

    b: int = 2


@tool
async def nothing() -> None:
    """Return None."""


@tool
async def maybe_not() -> str | None:
    """Return an optional text that is absent."""
    return None


@tool
async def undeclared_nothing():  # type: ignore[no-untyped-def]
    """Return None without an annotation."""


@tool
async def items_none() -> list[int]:
    """Return an empty list."""
    return []


@tool
async def undeclared_items_none():  # type: ignore[no-untyped-def]
    """Return an empty list without an annotation."""
    return []


@tool
async def pair_of_none() -> tuple[()]:
    """Return an empty tuple."""
    return ()


@tool
async def generates_nothing() -> AsyncIterator[int]:
    """Yield no items."""
    for item in list[int]():
        yield item


@tool
async def members() -> set[int]:
    """Return a set."""
    return {1}


@tool
async def members_frozen() -> frozenset[str]:
    """Return a frozen set."""
    return frozenset({"a"})


@tool
async def blocks() -> list[TextContent]:
    """Return content blocks."""
    return [TextContent(type="text", text="one"), TextContent(type="text", text="two")]


@tool
async def blocks_and_more():  # type: ignore[no-untyped-def]
    """Return content blocks and other values in one list."""
    return [TextContent(type="text", text="one"), {"two": None}, 3, "four", Image(data=_PIXEL, format="png"), b"\xff"]


@tool
async def block_annotated() -> TextContent:
    """Return a content block with all optional fields."""
    about = Annotations(audience=["user"], priority=0.5)
    return TextContent(type="text", text="for you", annotations=about, _meta={"a": {"b": None}})


@tool
async def picture() -> Image:
    """Return an image."""
    return Image(data=_PIXEL, format="png")


@tool
async def pictures() -> list[Image]:
    """Return images."""
    return [Image(data=_PIXEL, format="png")]


@tool
async def sound() -> Audio:
    """Return audio."""
    return Audio(data=b"RIFF", format="wav")


@tool
async def document() -> File:
    """Return a file."""
    return File(data=b"text", format="plain", name="notes")


@tool
async def embedded() -> EmbeddedResource:
    """Return a resource."""
    held = TextResourceContents(uri="test://held", text="held", mime_type="text/plain")
    return EmbeddedResource(type="resource", resource=held)


@tool
async def linked() -> ResourceLink:
    """Return a resource link, a content type that the first protocol versions do not have."""
    return ResourceLink(type="resource_link", name="link", uri="test://linked")


@tool
async def color() -> Color:
    """Return a member of an enum."""
    return Color.RED


@tool
async def color_deep():  # type: ignore[no-untyped-def]
    """Return a member of an enum without an annotation."""
    return Color.DEEP


@tool
async def size() -> Size:
    """Return a member of an enum of numbers."""
    return Size.SMALL


@tool
async def size_as_number() -> int:
    """Return a member of an enum of numbers that is declared as a number."""
    return Size.SMALL


@tool
async def word() -> str:
    """Return a text of a subclass of str."""
    return Word("word")


@tool
async def moment() -> datetime:
    """Return a point in time."""
    return datetime.fromisoformat("2026-07-28T00:00:00+00:00")


@tool
async def price() -> Decimal:
    """Return a decimal."""
    return Decimal("0.10")


@tool
async def key() -> UUID:
    """Return a UUID."""
    return UUID(int=3)


@tool
async def raw() -> bytes:
    """Return bytes that are valid UTF-8."""
    return b"raw \xc3\xa4"


@tool
async def raw_binary() -> bytes:
    """Return bytes that are not valid UTF-8."""
    return b"\xff\xfe"


@tool
async def raw_within() -> dict[str, bytes]:
    """Return an object with bytes that are not valid UTF-8."""
    return {"raw": b"\xff\xfe"}


@tool
async def undeclared_raw_within():  # type: ignore[no-untyped-def]
    """Return an object with bytes that are not valid UTF-8, without an annotation."""
    return {"raw": b"\xff\xfe"}


@tool
async def undeclared_moment():  # type: ignore[no-untyped-def]
    """Return a point in time without an annotation."""
    return datetime.fromisoformat("2026-07-28T00:00:00+00:00")


@tool
async def undeclared_model():  # type: ignore[no-untyped-def]
    """Return a model without an annotation."""
    return Derived()


@tool
async def derived() -> Base:
    """Return a model of a subclass."""
    return Derived()


@tool
async def names() -> Names:
    """Return a model that is not a JSON object."""
    return Names(["a", "b"])


@tool
async def names_none() -> Names:
    """Return an empty model that is not a JSON object."""
    return Names([])


@tool
async def items_written_away() -> Annotated[list[int], PlainSerializer(lambda _: [])]:
    """Return a list that its type serializes as an empty list."""
    return [1]


@tool
async def mapping_written_away() -> Annotated[dict[str, int], PlainSerializer(lambda _: None)]:
    """Return an object that its type serializes as null."""
    return {"a": 1}


@tool
async def text_written_away() -> Annotated[str, PlainSerializer(lambda _: [])]:
    """Return a text that its type serializes as an empty list."""
    return "text"


@tool
async def undeclared_ordered():  # type: ignore[no-untyped-def]
    """Return a subclass of dict."""
    return OrderedDict(b=1, a=2)


@tool
async def queue() -> Any:
    """Return a sequence that is not a list."""
    return deque([1, 2])


@tool
async def place() -> Place:
    """Return a named tuple."""
    return Place(1, 2)


@tool
async def result() -> ToolResult:
    """Return FastMCP's ToolResult."""
    return ToolResult(content="text", structured_content={"a": None, "huge": 10**30}, meta={"trace": {"a": 1}})


@tool
async def result_of_error() -> ToolResult:
    """Return FastMCP's ToolResult with an error."""
    return ToolResult(content="it went wrong", is_error=True)


@tool
async def result_structured() -> ToolResult:
    """Return FastMCP's ToolResult without text."""
    return ToolResult(structured_content={"only": ["structured", 1e22]})


@tool
async def result_of_the_protocol() -> CallToolResult:
    """Return the protocol's CallToolResult."""
    text = TextContent(type="text", text="text")
    return CallToolResult(content=[text], structured_content={"a": 1}, is_error=False, _meta={"m": None})


@tool
async def result_of_the_protocol_of_error():  # type: ignore[no-untyped-def]
    """Return the protocol's CallToolResult with an error, without an annotation."""
    return CallToolResult(content=[TextContent(type="text", text="wrong")], is_error=True)


@tool(output_schema=None)
async def unstructured_picture() -> Image:
    """Return an image without structured content."""
    return Image(data=_PIXEL, format="png")


@tool
async def asks() -> str:
    """Ask the client a question although the declared type does not allow it."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    question = ElicitRequestFormParams(message="Who?", requested_schema=schema)
    return InputRequiredResult(  # type: ignore[return-value]
        input_requests={"who": ElicitRequest(method="elicitation/create", params=question)}, request_state="asked"
    )


@tool
async def asks_as_it_says() -> InputRequiredResult | str:
    """Ask the client a question, as the declared type allows."""
    return InputRequiredResult(request_state="asked")


@tool
async def returns_opaque() -> Any:
    """Return an object that JSON cannot represent."""
    return {"value": Opaque()}
