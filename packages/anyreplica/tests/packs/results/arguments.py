"""Tools with arguments of every kind. Most of them return their argument unchanged."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

from fastmcp.tools import tool
from pydantic import BaseModel, ConfigDict, Field, StrictInt, field_validator

from tests.packs.returning import giving


class Unit(Enum):
    """An enum."""

    METER = "m"
    FOOT = "ft"


class Address(BaseModel):
    """A model with an alias."""

    model_config = ConfigDict(extra="forbid")

    street: str = Field(min_length=1)
    number: int = Field(alias="no", ge=1)


class Person(BaseModel):
    """A model that contains other models."""

    name: str
    born: date | None = None
    addresses: list[Address] = []

    @field_validator("name")
    @classmethod
    def _known(cls, value: str) -> str:
        if value == "nobody":
            raise ValueError("nobody is no name")
        if value == "crash":
            raise ZeroDivisionError("a validator's own mistake")
        if value == "leave":
            raise SystemExit(3)
        return value


@dataclass
class Range:
    """A dataclass."""

    start: int
    end: int = 10


_TYPES: dict[str, tuple[Any, ...]] = {
    "gives_anything": (Any,),
    "gives_undeclared": (),
    "gives_mapping": (dict[str, Any],),
    "gives_items": (list[Any],),
    "gives_number": (int,),
    "gives_fraction": (float,),
    "gives_truth": (bool,),
}
globals().update(giving(_TYPES))


@tool
async def gives_either(value: int | str | list[float] | None = None) -> int | str | list[float] | None:
    """Return a value of one of several types."""
    return value


@tool
def gives_text(value: str) -> str:
    """Return a text from a thread."""
    return value


@tool
async def gives_person(person: Person) -> Person:
    """Return a model."""
    return person


@tool
async def gives_range(span: Range) -> Range:
    """Return a dataclass."""
    return span


@tool
async def strict(value: StrictInt) -> int:
    """Take an integer without any conversion."""
    return value


@tool
async def constrained(
    age: Annotated[int, Field(ge=0, le=150)],
    word: Annotated[str, Field(pattern=r"^[a-z]+$", max_length=5)] = "abc",
    kind: Literal["a", "b"] = "a",
) -> str:
    """Take arguments with limits, some with defaults."""
    return f"{age} {word} {kind}"


@tool
async def keyword_only(*, first: str, second: int = 2) -> str:
    """Take keyword-only arguments."""
    return f"{first} {second}"


@tool
async def converted(
    unit: Unit = Unit.METER,
    at: datetime | None = None,
    wait: timedelta = timedelta(seconds=1),
    price: Decimal = Decimal("1.0"),
    key: UUID | None = None,
    raw: bytes = b"",
    group: set[int] | None = None,
) -> str:
    """Take arguments of types that JSON does not have."""
    return f"{unit} {at!r} {wait} {price!r} {key} {raw!r} {sorted(group or ())}"


@tool
async def aliased(from_: Annotated[int, Field(alias="from")] = 1) -> int:
    """Take an argument whose name is a Python keyword."""
    return from_


@tool
async def shadowing(arguments: int = 1, name: str = "n", self: int = 0, cls: int = 0) -> str:
    """Take arguments with names that also have other meanings."""
    return f"{arguments} {name} {self} {cls}"


@tool
async def by_region(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Take an argument that a header repeats."""
    return region
