"""A tool that takes a list."""

from fastmcp.tools import tool


@tool
async def total(numbers: list[int]) -> int:
    """Return the sum of some numbers."""
    return sum(numbers)
