"""Results that become one text. The fast path must answer each of these calls."""

import dataclasses
from datetime import datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any, Literal, Optional
from uuid import UUID

from fastmcp.tools import tool
from mcp_types import TextContent
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict  # pydantic refuses typing.TypedDict before Python 3.12.

_MOMENT = datetime.fromisoformat("2026-07-28T12:30:00.5+02:00")


class Word(str):
    """A subclass of str."""

    __slots__ = ()


class Tall(IntEnum):
    """A subclass of int."""

    SIZE = 3


class Town(BaseModel):
    """A model with an alias, a default of None and a model as a field."""

    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(alias="townName")
    mayor: str | None = None
    twin: Optional["Town"] = None


@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: float
    y: float = -0.0
    seen: datetime = _MOMENT


class Movie(TypedDict):
    """A typed dictionary."""

    title: str
    year: int | None


class Measure(BaseModel):
    """A model with fields of types that JSON does not have."""

    at: datetime = _MOMENT
    price: Decimal = Decimal("10.50")
    key: UUID = UUID(int=1)
    raw: bytes = b"raw"
    tags: set[str] = {"one"}


@tool
async def text() -> str:
    """Return ASCII text."""
    return "plain text"


@tool
async def text_empty() -> str:
    """Return an empty text."""
    return ""


@tool
async def text_unicode() -> str:
    """Return text beyond ASCII and beyond the basic plane."""
    return "ÄÖÜ ß 漢字 👩‍👩‍👧 \u2028 \U0010ffff \ufeff"


@tool
async def text_controls() -> str:
    """Return characters that JSON escapes."""
    return '"quoted" \\ / \b\f\n\r\t \x00 \x1f \x7f \x85 </script>'


@tool
async def text_like_a_template() -> str:
    """Return the placeholders of the template from which the fast path makes a reply."""
    return "the text goes here, the value goes here"


@tool
async def text_long() -> str:
    """Return 100,000 characters."""
    return "ä" * 100_000


@tool
def text_from_a_thread() -> str:
    """Return a text from a plain `def`."""
    return "from a thread"


@tool(run_in_thread=False)
def text_from_the_loop() -> str:
    """Return a text from a plain `def` that runs on the event loop."""
    return "from the loop"


@tool
async def number() -> int:
    """Return an integer."""
    return -7


@tool
async def number_of_64_bits() -> int:
    """Return the first integer that orjson does not write."""
    return 2**64


@tool
async def number_huge() -> int:
    """Return an integer with thirty digits."""
    return 123456789012345678901234567890


@tool
async def fraction_huge() -> float:
    """Return a float that is written with an exponent."""
    return 1e22


@tool
async def fraction_tiny() -> float:
    """Return a float that is written with a negative exponent."""
    return 5e-324


@tool
async def fraction_negative_zero() -> float:
    """Return a zero with a sign."""
    return -0.0


@tool
async def fraction_whole() -> float:
    """Return an integer although a float is declared."""
    return 3


@tool
async def truth() -> bool:
    """Return a bool."""
    return True


@tool
async def mapping() -> dict[str, Any]:
    """Return an object with values of all kinds."""
    return {"none": None, "nested": {"none": None, "list": [None, [], {}]}, "huge": 10**30, "float": 1.0, "yes": True}


@tool
async def mapping_empty() -> dict[str, int]:
    """Return an empty object."""
    return {}


@tool
async def mapping_of_numbers() -> dict[int, float]:
    """Return an object whose keys are numbers, which JSON writes as text."""
    return {1: 1.5, -2: 1e300}


@tool
async def mapping_of_odd_values() -> dict[str, Any]:
    """Return an object with values that only pydantic can write."""
    return {"at": _MOMENT, "price": Decimal("1.10"), "key": UUID(int=2), "set": {1}, "town": Town(name="Ulm")}


@tool
async def mapping_undeclared_empty():  # type: ignore[no-untyped-def]
    """Return an empty object without an annotation."""
    return {}


@tool
async def mapping_of_odd_keys() -> Any:
    """Return an object whose keys JSON writes as text, two of them as the same text."""
    return {None: 1, True: 2, 1.5: 3, 7: "number", "7": "text", UUID(int=4): 4, _MOMENT: 5}


@tool
async def items() -> list[int]:
    """Return a list."""
    return [1, 2, 10**30]


@tool
async def items_mixed() -> list[Any]:
    """Return a list with nested None."""
    return [None, "ä", 1.5, {"a": None}, [], True]


@tool
async def items_of_odd_types() -> list[Any]:
    """Return a list with values of subclasses and of types that JSON does not have."""
    return [Word("word"), Tall.SIZE, Decimal("1.0"), timedelta(seconds=90), b"raw", {1}, (1, None)]


@tool
async def items_of_items() -> list[Any]:
    """Return content blocks deeper in the result than FastMCP looks for them."""
    return [[TextContent(type="text", text="deep")], {"block": TextContent(type="text", text="deeper")}]


@tool
async def pair() -> tuple[int, str]:
    """Return a tuple."""
    return 1, "one"


@tool
async def town() -> Town:
    """Return a model."""
    return Town(name="Ulm", twin=Town(name="Neu-Ulm", mayor="Ä"))


@tool
def town_from_a_thread() -> Town:
    """Return a model from a plain `def`."""
    return Town(name="Ulm")


@tool
async def towns() -> list[Town]:
    """Return a list of models."""
    return [Town(name="Ulm"), Town(name="Aalen", mayor=None)]


@tool
async def measure() -> Measure:
    """Return a model with fields of unusual types."""
    return Measure()


@tool
async def point() -> Point:
    """Return a dataclass."""
    return Point(1e22)


@tool
async def points() -> dict[str, Point]:
    """Return an object with dataclasses."""
    return {"origin": Point(0)}


@tool
async def movie() -> Movie:
    """Return a typed dictionary."""
    return {"title": "Metropolis", "year": None}


@tool
async def maybe() -> str | None:
    """Return an optional text that is present."""
    return "something"


@tool
async def either() -> int | str:
    """Return a value of one of two types."""
    return "eleven"


@tool
async def either_record() -> Point | dict[str, int]:
    """Return an object of one of two types."""
    return {"x": 1}


@tool
async def one_of_few() -> Literal["red", "green"]:
    """Return a literal."""
    return "green"
