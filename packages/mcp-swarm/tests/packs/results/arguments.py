"""Arguments of every kind; most are given back as they came."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

from fastmcp.tools import tool
from pydantic import BaseModel, ConfigDict, Field, StrictInt, field_validator


class Unit(Enum):
    """Units."""

    METER = "m"
    FOOT = "ft"


class Address(BaseModel):
    """A model with an alias."""

    model_config = ConfigDict(extra="forbid")

    street: str = Field(min_length=1)
    number: int = Field(alias="no", ge=1)


class Person(BaseModel):
    """A model with models within."""

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


@tool
async def gives_anything(value: Any) -> Any:
    """Give back whatever came."""
    return value


@tool
async def gives_undeclared(value):  # type: ignore[no-untyped-def]
    """Give back whatever came, without an annotation."""
    return value


@tool
async def gives_mapping(value: dict[str, Any]) -> dict[str, Any]:
    """Give back an object."""
    return value


@tool
async def gives_items(value: list[Any]) -> list[Any]:
    """Give back a list."""
    return value


@tool
def gives_text(value: str) -> str:
    """Give back a text, from a thread."""
    return value


@tool
async def gives_number(value: int) -> int:
    """Give back an integer."""
    return value


@tool
async def gives_fraction(value: float) -> float:
    """Give back a number."""
    return value


@tool
async def gives_truth(value: bool) -> bool:
    """Give back a bool."""
    return value


@tool
async def gives_either(value: int | str | list[float] | None = None) -> int | str | list[float] | None:
    """Give back one of several."""
    return value


@tool
async def gives_person(person: Person) -> Person:
    """Give back a model."""
    return person


@tool
async def gives_range(span: Range) -> Range:
    """Give back a dataclass."""
    return span


@tool
async def strict(value: StrictInt) -> int:
    """An integer and nothing that could be made one."""
    return value


@tool
async def constrained(
    age: Annotated[int, Field(ge=0, le=150)],
    word: Annotated[str, Field(pattern=r"^[a-z]+$", max_length=5)] = "abc",
    kind: Literal["a", "b"] = "a",
) -> str:
    """Arguments within bounds, some with defaults."""
    return f"{age} {word} {kind}"


@tool
async def keyword_only(*, first: str, second: int = 2) -> str:
    """Arguments that have to be named."""
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
    """Arguments that JSON has no form of its own for."""
    return f"{unit} {at!r} {wait} {price!r} {key} {raw!r} {sorted(group or ())}"


@tool
async def aliased(from_: Annotated[int, Field(alias="from")] = 1) -> int:
    """An argument whose name Python can't have."""
    return from_


@tool
async def shadowing(arguments: int = 1, name: str = "n", self: int = 0, cls: int = 0) -> str:
    """Arguments with names that others use, too."""
    return f"{arguments} {name} {self} {cls}"


@tool
async def by_region(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """An argument that a header repeats."""
    return region
