"""Plain async tools."""

from fastmcp.tools import tool


@tool
async def echo(message: str) -> str:
    """Return the message.

    Args:
        message: Any text.
    """
    return message


@tool
async def add(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b
