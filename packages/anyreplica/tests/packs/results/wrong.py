"""Results that contradict their output schema, or that JSON cannot carry in part."""

import dataclasses
import math
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from fastmcp.tools import ToolResult, tool
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from tests.packs.returning import returning


class Shape(TypedDict):
    """A dict with one required key."""

    sides: int
    color: NotRequired[str]


class Ratio(BaseModel):
    """A model whose value JSON may not have."""

    value: float


@dataclasses.dataclass
class Box:
    """A dataclass, which does not check its values."""

    shape: Shape | None


_RESULTS: dict[str, tuple[Any, ...]] = {
    "not_the_shape": ({"wrong": "shape"}, Shape),
    "not_the_shapes": ([{"sides": 3}, {"sides": "four"}], list[Shape]),
    "not_in_the_box": (Box({"color": "red"}), Box),  # type: ignore[arg-type]
    "not_in_range": (-1, Annotated[int, Field(ge=0)]),
    "not_a_list": ([1], Shape),
    "not_there": (None, int),
    "not_structured": (ToolResult(content="text"), dict[str, int]),
    "not_a_number": (Ratio(value=math.nan), Ratio),  # pydantic would write null
    "not_numbers": ([Ratio(value=math.inf)],),
    "not_numbers_within": ([1, {"b": math.inf}], Any),  # pydantic would write null
    "not_numbers_in_a_list": ([math.nan], list[Any]),
    "not_numbers_undeclared": ({"b": -math.inf},),
    "not_what_it_says": ("seven", int),
    "not_text_as_it_says": (7, str),
    "result_structured_despite_schema": (ToolResult(structured_content={"other": "kind"}), dict[str, int]),
}
globals().update(returning(_RESULTS))


@tool
def not_one_of() -> Literal["a", "b"]:
    """Return another value than those that are allowed."""
    return "c"  # type: ignore[return-value]


@tool(output_schema={"type": "object", "required": ["sum"]})
async def not_of_the_protocol() -> CallToolResult:
    """Return the protocol's CallToolResult with other content than declared."""
    return CallToolResult(content=[], structured_content={"total": 3})


@tool(output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]})
async def declared_otherwise() -> dict[str, str]:
    """Return an object that does not fit the declared schema."""
    return {"total": "three"}


@tool(output_schema={"type": "object"})
async def declared_but_number() -> Any:
    """Return a number although the schema requires an object."""
    return 3


@tool(output_schema={"type": "object"})
async def declared_but_text() -> str:
    """Return a text although the schema requires an object."""
    return "three"


@tool(output_schema={"type": "object"})
async def declared_but_nothing() -> None:
    """Return None although the schema requires an object."""
