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

from tests.packs.returning import returning

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


_DEEP = TextContent(type="text", text="deep")
"""FastMCP does not look for content blocks as deep in a result as these are."""

_RESULTS: dict[str, tuple[Any, ...]] = {
    "text": ("plain text", str),
    "text_empty": ("", str),
    "text_unicode": ("ÄÖÜ ß 漢字 👩‍👩‍👧 \u2028 \U0010ffff \ufeff", str),
    "text_controls": ('"quoted" \\ / \b\f\n\r\t \x00 \x1f \x7f \x85 </script>', str),
    # The placeholders of the template from which the fast path makes a reply.
    "text_like_a_template": ("the text goes here, the value goes here", str),
    "text_long": ("ä" * 100_000, str),
    "number": (-7, int),
    "number_of_64_bits": (2**64, int),  # the first integer that orjson does not write
    "number_huge": (123456789012345678901234567890, int),
    "fraction_huge": (1e22, float),
    "fraction_tiny": (5e-324, float),
    "fraction_negative_zero": (-0.0, float),
    "fraction_whole": (3, float),
    "truth": (True, bool),
    "mapping": (
        {"none": None, "nested": {"none": None, "list": [None, [], {}]}, "huge": 10**30, "float": 1.0, "yes": True},
        dict[str, Any],
    ),
    "mapping_empty": ({}, dict[str, int]),
    "mapping_of_numbers": ({1: 1.5, -2: 1e300}, dict[int, float]),
    # Only pydantic can write these values.
    "mapping_of_odd_values": (
        {"at": _MOMENT, "price": Decimal("1.10"), "key": UUID(int=2), "set": {1}, "town": Town(name="Ulm")},
        dict[str, Any],
    ),
    "mapping_undeclared_empty": ({},),
    # JSON writes the keys as text, two of them as the same text.
    "mapping_of_odd_keys": ({None: 1, True: 2, 1.5: 3, 7: "number", "7": "text", UUID(int=4): 4, _MOMENT: 5}, Any),
    "items": ([1, 2, 10**30], list[int]),
    "items_mixed": ([None, "ä", 1.5, {"a": None}, [], True], list[Any]),
    # Values of subclasses and of types that JSON does not have.
    "items_of_odd_types": (
        [Word("word"), Tall.SIZE, Decimal("1.0"), timedelta(seconds=90), b"raw", {1}, (1, None)],
        list[Any],
    ),
    "items_of_items": ([[_DEEP], {"block": _DEEP}], list[Any]),
    "pair": ((1, "one"), tuple[int, str]),
    "town": (Town(name="Ulm", twin=Town(name="Neu-Ulm", mayor="Ä")), Town),
    "towns": ([Town(name="Ulm"), Town(name="Aalen", mayor=None)], list[Town]),
    "measure": (Measure(), Measure),
    "point": (Point(1e22), Point),
    "points": ({"origin": Point(0)}, dict[str, Point]),
    "movie": ({"title": "Metropolis", "year": None}, Movie),
    "maybe": ("something", str | None),
    "either": ("eleven", int | str),
    "either_record": ({"x": 1}, Point | dict[str, int]),
    "one_of_few": ("green", Literal["red", "green"]),
}
globals().update(returning(_RESULTS))


@tool
def text_from_a_thread() -> str:
    """Return a text from a plain `def`."""
    return "from a thread"


@tool(run_in_thread=False)
def text_from_the_loop() -> str:
    """Return a text from a plain `def` that runs on the event loop."""
    return "from the loop"


@tool
def town_from_a_thread() -> Town:
    """Return a model from a plain `def`."""
    return Town(name="Ulm")
