"""A tool that adds numbers."""

from fastmcp.tools import tool


@tool(annotations={"readOnlyHint": True, "idempotentHint": True})
async def add(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b
