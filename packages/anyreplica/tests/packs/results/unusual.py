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

from tests.packs.returning import returning

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


_MIDNIGHT = datetime.fromisoformat("2026-07-28T00:00:00+00:00")
_ONE, _TWO = TextContent(type="text", text="one"), TextContent(type="text", text="two")
_ALL_FIELDS: dict[str, Any] = {"annotations": Annotations(audience=["user"], priority=0.5), "_meta": {"a": {"b": None}}}
_HELD = TextResourceContents(uri="test://held", text="held", mime_type="text/plain")
_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
_QUESTION = ElicitRequest(
    method="elicitation/create", params=ElicitRequestFormParams(message="Who?", requested_schema=_SCHEMA)
)

_RESULTS: dict[str, tuple[Any, ...]] = {
    "nothing": (None, None),
    "maybe_not": (None, str | None),
    "undeclared_nothing": (None,),
    "items_none": ([], list[int]),
    "undeclared_items_none": ([],),
    "pair_of_none": ((), tuple[()]),
    "members": ({1}, set[int]),
    "members_frozen": (frozenset({"a"}), frozenset[str]),
    "blocks": ([_ONE, _TWO], list[TextContent]),
    "blocks_and_more": ([_ONE, {"two": None}, 3, "four", Image(data=_PIXEL, format="png"), b"\xff"],),
    "block_annotated": (TextContent(type="text", text="for you", **_ALL_FIELDS), TextContent),
    "picture": (Image(data=_PIXEL, format="png"), Image),
    "pictures": ([Image(data=_PIXEL, format="png")], list[Image]),
    "sound": (Audio(data=b"RIFF", format="wav"), Audio),
    "document": (File(data=b"text", format="plain", name="notes"), File),
    "embedded": (EmbeddedResource(type="resource", resource=_HELD), EmbeddedResource),
    # The first protocol versions do not have this content type.
    "linked": (ResourceLink(type="resource_link", name="link", uri="test://linked"), ResourceLink),
    "color": (Color.RED, Color),
    "color_deep": (Color.DEEP,),
    "size": (Size.SMALL, Size),
    "size_as_number": (Size.SMALL, int),
    "word": (Word("word"), str),
    "moment": (_MIDNIGHT, datetime),
    "price": (Decimal("0.10"), Decimal),
    "key": (UUID(int=3), UUID),
    "raw": (b"raw \xc3\xa4", bytes),
    "raw_binary": (b"\xff\xfe", bytes),  # no UTF-8
    "raw_within": ({"raw": b"\xff\xfe"}, dict[str, bytes]),
    "undeclared_raw_within": ({"raw": b"\xff\xfe"},),
    "undeclared_moment": (_MIDNIGHT,),
    "undeclared_model": (Derived(),),
    "derived": (Derived(), Base),
    "names": (Names(["a", "b"]), Names),
    "names_none": (Names([]), Names),
    # The types of these three write something else than the value.
    "items_written_away": ([1], Annotated[list[int], PlainSerializer(lambda _: [])]),
    "mapping_written_away": ({"a": 1}, Annotated[dict[str, int], PlainSerializer(lambda _: None)]),
    "text_written_away": ("text", Annotated[str, PlainSerializer(lambda _: [])]),
    "undeclared_ordered": (OrderedDict(b=1, a=2),),
    "queue": (deque([1, 2]), Any),
    "place": (Place(1, 2), Place),
    "result": (
        ToolResult(content="text", structured_content={"a": None, "huge": 10**30}, meta={"trace": {"a": 1}}),
        ToolResult,
    ),
    "result_of_error": (ToolResult(content="it went wrong", is_error=True), ToolResult),
    "result_structured": (ToolResult(structured_content={"only": ["structured", 1e22]}), ToolResult),
    "result_of_the_protocol": (
        CallToolResult(content=[_ONE], structured_content={"a": 1}, is_error=False, _meta={"m": None}),
        CallToolResult,
    ),
    "result_of_the_protocol_of_error": (CallToolResult(content=[_ONE], is_error=True),),
    # The declared type does not allow the first question, but the second.
    "asks": (InputRequiredResult(input_requests={"who": _QUESTION}, request_state="asked"), str),
    "asks_as_it_says": (InputRequiredResult(request_state="asked"), InputRequiredResult | str),
    "returns_opaque": ({"value": Opaque()}, Any),
}
globals().update(returning(_RESULTS))


@tool
async def generates_nothing() -> AsyncIterator[int]:
    """Yield no items."""
    for item in list[int]():
        yield item


@tool(output_schema=None)
async def unstructured_picture() -> Image:
    """Return an image without structured content."""
    return Image(data=_PIXEL, format="png")
