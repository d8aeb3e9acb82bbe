"""Results whose declarations say nothing, or more, or something else than what they are; likewise of the fast path."""

from typing import Any

from fastmcp.tools import tool

from tests.packs.results import plain


@tool
async def any_text() -> Any:
    """A text that isn't declared as one."""
    return "any"


@tool
async def undeclared_text():  # type: ignore[no-untyped-def]
    """A text without any annotation."""
    return "undeclared 👋"


@tool
async def undeclared_mapping():  # type: ignore[no-untyped-def]
    """An object without any annotation."""
    return {"b": 1, "a": {"huge": 2**70, "none": None}, 3: "three"}


@tool
def undeclared_items():  # type: ignore[no-untyped-def]
    """A list without any annotation."""
    return [1, "two", None]


@tool
async def undeclared_number():  # type: ignore[no-untyped-def]
    """A number without any annotation."""
    return 10**30


@tool
async def undeclared_float():  # type: ignore[no-untyped-def]
    """A float without any annotation."""
    return 1e22


@tool
async def undeclared_truth():  # type: ignore[no-untyped-def]
    """A bool without any annotation."""
    return False


@tool(output_schema=None)
async def unstructured_number() -> int:
    """A number whose author wants no structured content."""
    return 5


@tool(output_schema=None)
async def unstructured_town() -> plain.Town:
    """A model whose author wants no structured content."""
    return plain.Town(name="Ulm")


@tool(output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}})
async def declared() -> dict[str, int]:
    """An object that fits the schema that is declared."""
    return {"sum": 3}


@tool(output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]})
async def declared_otherwise() -> dict[str, str]:
    """An object that doesn't fit the schema that is declared."""
    return {"total": "three"}


_WRAPPED = {"type": "object", "properties": {"result": {}}, "x-fastmcp-wrap-result": True}


@tool(output_schema=_WRAPPED)
async def declared_wrapped() -> dict[str, int]:
    """An object whose author wants it wrapped."""
    return {"a": 1}


@tool(output_schema=_WRAPPED)
async def declared_wrapped_text() -> str:
    """A text whose author wrote down how it is wrapped."""
    return "wrapped"


@tool(version="2.0")
async def versioned() -> str:
    """A tool with a version."""
    return "version 2"


@tool
async def generated():  # type: ignore[no-untyped-def]
    """An async generator."""
    yield 1
    yield "two"


@tool
def generated_in_a_thread():  # type: ignore[no-untyped-def]
    """A generator."""
    yield from (1, 2, 3)


@tool
def awaitable_from_a_thread():  # type: ignore[no-untyped-def]
    """A `def` that returns an awaitable."""
    return plain.text()


@tool
async def not_what_it_says() -> int:
    """A text where a number is declared."""
    return "seven"  # type: ignore[return-value]


@tool
async def not_the_record_it_says() -> plain.Town:
    """An object where a model is declared."""
    return {"name": "Ulm"}  # type: ignore[return-value]


@tool(
    title="A title", tags={"tagged"}, meta={"author": "me"}, annotations={"readOnlyHint": True}, name="named-otherwise"
)
async def _named() -> str:
    """A tool with everything that a list shows."""
    return "named"


named = _named
