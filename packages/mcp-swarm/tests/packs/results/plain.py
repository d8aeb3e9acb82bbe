"""Results that become one text: each of these calls must end in the fast path."""

import dataclasses
from datetime import datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any, Literal, Optional
from uuid import UUID

from fastmcp.tools import tool
from mcp_types import TextContent
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict  # typing's own is refused by pydantic before Python 3.12

_MOMENT = datetime.fromisoformat("2026-07-28T12:30:00.5+02:00")


class Word(str):
    """A text of a type of its own."""

    __slots__ = ()


class Tall(IntEnum):
    """A number of a type of its own."""

    SIZE = 3


class Town(BaseModel):
    """A model with an alias, a default that is None, and another model within."""

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
    """Fields of types that JSON has no form of its own for."""

    at: datetime = _MOMENT
    price: Decimal = Decimal("10.50")
    key: UUID = UUID(int=1)
    raw: bytes = b"raw"
    tags: set[str] = {"one"}


@tool
async def text() -> str:
    """ASCII."""
    return "plain text"


@tool
async def text_empty() -> str:
    """Nothing."""
    return ""


@tool
async def text_unicode() -> str:
    """Beyond ASCII and beyond the basic plane."""
    return "ÄÖÜ ß 漢字 👩‍👩‍👧 \u2028 \U0010ffff \ufeff"


@tool
async def text_controls() -> str:
    """What JSON escapes."""
    return '"quoted" \\ / \b\f\n\r\t \x00 \x1f \x7f \x85 </script>'


@tool
async def text_like_a_template() -> str:
    """The words that the reply's template holds where the text goes."""
    return "the text goes here, the value goes here"


@tool
async def text_long() -> str:
    """A hundred thousand characters."""
    return "ä" * 100_000


@tool
def text_from_a_thread() -> str:
    """A plain `def`."""
    return "from a thread"


@tool(run_in_thread=False)
def text_from_the_loop() -> str:
    """A plain `def` that stays on the event loop."""
    return "from the loop"


@tool
async def number() -> int:
    """An integer."""
    return -7


@tool
async def number_of_64_bits() -> int:
    """The first integer that orjson doesn't write."""
    return 2**64


@tool
async def number_huge() -> int:
    """Thirty digits."""
    return 123456789012345678901234567890


@tool
async def fraction_huge() -> float:
    """Written with an exponent."""
    return 1e22


@tool
async def fraction_tiny() -> float:
    """Written with a negative exponent."""
    return 5e-324


@tool
async def fraction_negative_zero() -> float:
    """A zero with a sign."""
    return -0.0


@tool
async def fraction_whole() -> float:
    """An integer where a float is declared."""
    return 3


@tool
async def truth() -> bool:
    """A bool."""
    return True


@tool
async def mapping() -> dict[str, Any]:
    """An object with everything in it."""
    return {"none": None, "nested": {"none": None, "list": [None, [], {}]}, "huge": 10**30, "float": 1.0, "yes": True}


@tool
async def mapping_empty() -> dict[str, int]:
    """An object with nothing in it."""
    return {}


@tool
async def mapping_of_numbers() -> dict[int, float]:
    """Keys that JSON makes text of."""
    return {1: 1.5, -2: 1e300}


@tool
async def mapping_of_odd_values() -> dict[str, Any]:
    """Values that only pydantic knows how to write."""
    return {"at": _MOMENT, "price": Decimal("1.10"), "key": UUID(int=2), "set": {1}, "town": Town(name="Ulm")}


@tool
async def mapping_undeclared_empty():  # type: ignore[no-untyped-def]
    """An object with nothing in it, without an annotation."""
    return {}


@tool
async def mapping_of_odd_keys() -> Any:
    """Keys that JSON makes text of, two of them the same."""
    return {None: 1, True: 2, 1.5: 3, 7: "number", "7": "text", UUID(int=4): 4, _MOMENT: 5}


@tool
async def items() -> list[int]:
    """A list."""
    return [1, 2, 10**30]


@tool
async def items_mixed() -> list[Any]:
    """A list with nested None."""
    return [None, "ä", 1.5, {"a": None}, [], True]


@tool
async def items_of_odd_types() -> list[Any]:
    """Values of subclasses, and of types that JSON doesn't know."""
    return [Word("word"), Tall.SIZE, Decimal("1.0"), timedelta(seconds=90), b"raw", {1}, (1, None)]


@tool
async def items_of_items() -> list[Any]:
    """Content blocks deeper than where they are looked for."""
    return [[TextContent(type="text", text="deep")], {"block": TextContent(type="text", text="deeper")}]


@tool
async def pair() -> tuple[int, str]:
    """A tuple."""
    return 1, "one"


@tool
async def town() -> Town:
    """A model."""
    return Town(name="Ulm", twin=Town(name="Neu-Ulm", mayor="Ä"))


@tool
def town_from_a_thread() -> Town:
    """A model, from a plain `def`."""
    return Town(name="Ulm")


@tool
async def towns() -> list[Town]:
    """A list of models."""
    return [Town(name="Ulm"), Town(name="Aalen", mayor=None)]


@tool
async def measure() -> Measure:
    """A model with odd fields."""
    return Measure()


@tool
async def point() -> Point:
    """A dataclass."""
    return Point(1e22)


@tool
async def points() -> dict[str, Point]:
    """Dataclasses in an object."""
    return {"origin": Point(0)}


@tool
async def movie() -> Movie:
    """A typed dictionary."""
    return {"title": "Metropolis", "year": None}


@tool
async def maybe() -> str | None:
    """An optional text that is there."""
    return "something"


@tool
async def either() -> int | str:
    """One of two."""
    return "eleven"


@tool
async def either_record() -> Point | dict[str, int]:
    """An object of one of two kinds."""
    return {"x": 1}


@tool
async def one_of_few() -> Literal["red", "green"]:
    """A literal."""
    return "green"
