"""Results that contradict their output schema, or that JSON cannot carry in part."""

import dataclasses
import math
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from fastmcp.tools import ToolResult, tool
from mcp_types import CallToolResult
from pydantic import BaseModel, Field


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


@tool
async def not_the_shape() -> Shape:
    """Return an object without the required key."""
    return {"wrong": "shape"}  # type: ignore[typeddict-item, typeddict-unknown-key]


@tool
async def not_the_shapes() -> list[Shape]:
    """Return a list with a wrong value."""
    return [{"sides": 3}, {"sides": "four"}]  # type: ignore[typeddict-item]


@tool
async def not_in_the_box() -> Box:
    """Return a dataclass with a wrong value."""
    return Box({"color": "red"})  # type: ignore[arg-type]


@tool
def not_one_of() -> Literal["a", "b"]:
    """Return another value than those that are allowed."""
    return "c"  # type: ignore[return-value]


@tool
async def not_in_range() -> Annotated[int, Field(ge=0)]:
    """Return a number that is too small."""
    return -1


@tool
async def not_a_list() -> Shape:
    """Return a list although an object is declared."""
    return [1]  # type: ignore[return-value]


@tool
async def not_there() -> int:
    """Return nothing although a number is declared."""
    return None  # type: ignore[return-value]


@tool
async def not_structured() -> dict[str, int]:
    """Return only a text although an object is declared."""
    return ToolResult(content="text")  # type: ignore[return-value]


@tool(output_schema={"type": "object", "required": ["sum"]})
async def not_of_the_protocol() -> CallToolResult:
    """Return the protocol's CallToolResult with other content than declared."""
    return CallToolResult(content=[], structured_content={"total": 3})


@tool
async def not_a_number() -> Ratio:
    """Return a model with NaN, for which pydantic would write null."""
    return Ratio(value=math.nan)


@tool
async def not_numbers():  # type: ignore[no-untyped-def]
    """Return models with an infinity, without an annotation."""
    return [Ratio(value=math.inf)]


@tool(output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]})
async def declared_otherwise() -> dict[str, str]:
    """Return an object that does not fit the declared schema."""
    return {"total": "three"}


@tool
async def not_what_it_says() -> int:
    """Return a text although a number is declared."""
    return "seven"  # type: ignore[return-value]


@tool
async def not_text_as_it_says() -> str:
    """Return a number although a text is declared."""
    return 7  # type: ignore[return-value]


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


@tool
async def result_structured_despite_schema() -> dict[str, int]:
    """Return FastMCP's ToolResult although an object is declared."""
    return ToolResult(structured_content={"other": "kind"})  # type: ignore[return-value]
