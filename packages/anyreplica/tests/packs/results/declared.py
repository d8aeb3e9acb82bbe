"""Results whose declared type is missing, wrapped or wrong. The fast path answers them."""

import asyncio
from typing import Any

from fastmcp.tools import tool

from tests.packs.results import plain
from tests.packs.returning import returning

_RESULTS: dict[str, tuple[Any, ...]] = {
    "any_text": ("any", Any),
    "undeclared_text": ("undeclared 👋",),
    "undeclared_mapping": ({"b": 1, "a": {"huge": 2**70, "none": None}, 3: "three"},),
    "undeclared_number": (10**30,),
    "undeclared_float": (1e22,),
    "undeclared_truth": (False,),
    "not_the_record_it_says": ({"name": "Ulm"}, plain.Town),
}
globals().update(returning(_RESULTS))


@tool
def undeclared_items():  # type: ignore[no-untyped-def]
    """Return a list without an annotation."""
    return [1, "two", None]


@tool(output_schema=None)
async def unstructured_number() -> int:
    """Return a number without structured content."""
    return 5


@tool(output_schema=None)
async def unstructured_town() -> plain.Town:
    """Return a model without structured content."""
    return plain.Town(name="Ulm")


@tool(output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}})
async def declared() -> dict[str, int]:
    """Return an object that fits the declared schema."""
    return {"sum": 3}


_WRAPPED = {"type": "object", "properties": {"result": {}}, "x-fastmcp-wrap-result": True}


@tool(output_schema=_WRAPPED)
async def declared_wrapped() -> dict[str, int]:
    """Return an object that is declared as wrapped."""
    return {"a": 1}


@tool(output_schema=_WRAPPED)
async def declared_wrapped_text() -> str:
    """Return a text that is declared as wrapped."""
    return "wrapped"


@tool(version="2.0")
async def versioned() -> str:
    """Return a text from a tool with a version."""
    return "version 2"


@tool
async def generated():  # type: ignore[no-untyped-def]
    """Yield items from an async generator."""
    yield 1
    yield "two"


@tool
def generated_in_a_thread():  # type: ignore[no-untyped-def]
    """Yield items from a generator."""
    yield from (1, 2, 3)


@tool
def awaitable_from_a_thread():  # type: ignore[no-untyped-def]
    """Return an awaitable from a `def`."""
    return asyncio.sleep(0, "plain text")


@tool(
    title="A title", tags={"tagged"}, meta={"author": "me"}, annotations={"readOnlyHint": True}, name="named-otherwise"
)
async def _named() -> str:
    """Return a text from a tool with a title, a tag, metadata, annotations and another name than its function."""
    return "named"


named = _named
