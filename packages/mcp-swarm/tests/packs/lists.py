"""A tool that takes a list."""

from fastmcp.tools import tool


@tool
async def total(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)
