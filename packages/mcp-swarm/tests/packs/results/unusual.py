"""Results that both paths may leave to FastMCP to convert."""

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
    """Some colors."""

    RED = "red"
    DEEP = 3


class Size(IntEnum):
    """An enum whose members are numbers."""

    SMALL = 1


class Word(str):
    """A text of a type of its own."""

    __slots__ = ()


class Names(RootModel[list[str]]):
    """A model that is no object."""


class Place(NamedTuple):
    """A tuple with names."""

    x: int
    y: int


class Base(BaseModel):
    """What is declared."""

    a: int = 1


class Derived(Base):
    """What is returned."""

    b: int = 2


@tool
async def nothing() -> None:
    """None."""


@tool
async def maybe_not() -> str | None:
    """An optional text that isn't there."""
    return None


@tool
async def undeclared_nothing():  # type: ignore[no-untyped-def]
    """None, without an annotation."""


@tool
async def items_none() -> list[int]:
    """An empty list."""
    return []


@tool
async def undeclared_items_none():  # type: ignore[no-untyped-def]
    """An empty list, without an annotation."""
    return []


@tool
async def pair_of_none() -> tuple[()]:
    """An empty tuple."""
    return ()


@tool
async def generates_nothing() -> AsyncIterator[int]:
    """No items."""
    for item in list[int]():
        yield item


@tool
async def members() -> set[int]:
    """A set."""
    return {1}


@tool
async def members_frozen() -> frozenset[str]:
    """A frozen set."""
    return frozenset({"a"})


@tool
async def blocks() -> list[TextContent]:
    """Content blocks."""
    return [TextContent(type="text", text="one"), TextContent(type="text", text="two")]


@tool
async def blocks_and_more():  # type: ignore[no-untyped-def]
    """Content blocks among other things."""
    return [TextContent(type="text", text="one"), {"two": None}, 3, "four", Image(data=_PIXEL, format="png"), b"\xff"]


@tool
async def block_annotated() -> TextContent:
    """A content block with all that it may have."""
    about = Annotations(audience=["user"], priority=0.5)
    return TextContent(type="text", text="for you", annotations=about, _meta={"a": {"b": None}})


@tool
async def picture() -> Image:
    """An image."""
    return Image(data=_PIXEL, format="png")


@tool
async def pictures() -> list[Image]:
    """Images."""
    return [Image(data=_PIXEL, format="png")]


@tool
async def sound() -> Audio:
    """Audio."""
    return Audio(data=b"RIFF", format="wav")


@tool
async def document() -> File:
    """A file."""
    return File(data=b"text", format="plain", name="notes")


@tool
async def embedded() -> EmbeddedResource:
    """A resource."""
    held = TextResourceContents(uri="test://held", text="held", mime_type="text/plain")
    return EmbeddedResource(type="resource", resource=held)


@tool
async def linked() -> ResourceLink:
    """A link to a resource, which the first protocol versions don't know."""
    return ResourceLink(type="resource_link", name="link", uri="test://linked")


@tool
async def color() -> Color:
    """An enum's member."""
    return Color.RED


@tool
async def color_deep():  # type: ignore[no-untyped-def]
    """An enum's member, without an annotation."""
    return Color.DEEP


@tool
async def size() -> Size:
    """A number of a type of its own."""
    return Size.SMALL


@tool
async def size_as_number() -> int:
    """A number of a type of its own, declared as a number."""
    return Size.SMALL


@tool
async def not_text_as_it_says() -> str:
    """A number where a text is declared."""
    return 7  # type: ignore[return-value]


@tool
async def word() -> str:
    """A text of a type of its own."""
    return Word("word")


@tool
async def moment() -> datetime:
    """A point in time."""
    return datetime.fromisoformat("2026-07-28T00:00:00+00:00")


@tool
async def price() -> Decimal:
    """A decimal."""
    return Decimal("0.10")


@tool
async def key() -> UUID:
    """A UUID."""
    return UUID(int=3)


@tool
async def raw() -> bytes:
    """Bytes that are text."""
    return b"raw \xc3\xa4"


@tool
async def raw_binary() -> bytes:
    """Bytes that are no text."""
    return b"\xff\xfe"


@tool
async def raw_within() -> dict[str, bytes]:
    """Bytes that are no text, in an object."""
    return {"raw": b"\xff\xfe"}


@tool
async def undeclared_raw_within():  # type: ignore[no-untyped-def]
    """Bytes that are no text, in an object, without an annotation."""
    return {"raw": b"\xff\xfe"}


@tool
async def undeclared_moment():  # type: ignore[no-untyped-def]
    """A point in time, without an annotation."""
    return datetime.fromisoformat("2026-07-28T00:00:00+00:00")


@tool
async def undeclared_model():  # type: ignore[no-untyped-def]
    """A model, without an annotation."""
    return Derived()


@tool
async def derived() -> Base:
    """A model of a subclass."""
    return Derived()


@tool
async def names() -> Names:
    """A model that is no object."""
    return Names(["a", "b"])


@tool
async def names_none() -> Names:
    """A model that is no object, and empty."""
    return Names([])


@tool
async def items_written_away() -> Annotated[list[int], PlainSerializer(lambda _: [])]:
    """A list that its type writes as an empty one."""
    return [1]


@tool
async def mapping_written_away() -> Annotated[dict[str, int], PlainSerializer(lambda _: None)]:
    """An object that its type writes as null."""
    return {"a": 1}


@tool
async def text_written_away() -> Annotated[str, PlainSerializer(lambda _: [])]:
    """A text that its type writes as an empty list."""
    return "text"


@tool
async def undeclared_ordered():  # type: ignore[no-untyped-def]
    """A dictionary of a type of its own."""
    return OrderedDict(b=1, a=2)


@tool
async def queue() -> Any:
    """A sequence that is no list."""
    return deque([1, 2])


@tool
async def place() -> Place:
    """A tuple with names."""
    return Place(1, 2)


@tool
async def result() -> ToolResult:
    """FastMCP's own result."""
    return ToolResult(content="text", structured_content={"a": None, "huge": 10**30}, meta={"trace": {"a": 1}})


@tool
async def result_of_error() -> ToolResult:
    """FastMCP's own result, which tells of an error."""
    return ToolResult(content="it went wrong", is_error=True)


@tool
async def result_structured() -> ToolResult:
    """FastMCP's own result, without a text of its own."""
    return ToolResult(structured_content={"only": ["structured", 1e22]})


@tool
async def result_structured_despite_schema() -> dict[str, int]:
    """FastMCP's own result where an object is declared."""
    return ToolResult(structured_content={"other": "kind"})  # type: ignore[return-value]


@tool
async def result_of_the_protocol() -> CallToolResult:
    """The protocol's result."""
    text = TextContent(type="text", text="text")
    return CallToolResult(content=[text], structured_content={"a": 1}, is_error=False, _meta={"m": None})


@tool
async def result_of_the_protocol_of_error():  # type: ignore[no-untyped-def]
    """The protocol's result, which tells of an error, without an annotation."""
    return CallToolResult(content=[TextContent(type="text", text="wrong")], is_error=True)


@tool(output_schema={"type": "object"})
async def declared_but_number() -> Any:
    """A number where the schema wants an object."""
    return 3


@tool(output_schema={"type": "object"})
async def declared_but_text() -> str:
    """A text where the schema wants an object."""
    return "three"


@tool(output_schema={"type": "object"})
async def declared_but_nothing() -> None:
    """Nothing where the schema wants an object."""


@tool(output_schema=None)
async def unstructured_picture() -> Image:
    """An image whose author wants no structured content."""
    return Image(data=_PIXEL, format="png")


@tool
async def asks() -> str:
    """Ask the caller, although nothing says that it might."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    question = ElicitRequestFormParams(message="Who?", requested_schema=schema)
    return InputRequiredResult(  # type: ignore[return-value]
        input_requests={"who": ElicitRequest(method="elicitation/create", params=question)}, request_state="asked"
    )


@tool
async def asks_as_it_says() -> InputRequiredResult | str:
    """Ask the caller."""
    return InputRequiredResult(request_state="asked")
