"""A tool with a FastMCP `Depends` parameter."""

from fastmcp.dependencies import Depends
from fastmcp.tools import tool


def _greeting() -> str:
    return "injected"


@tool
async def with_depends(message: str, greeting: str = Depends(_greeting)) -> str:
    """Return the message after a greeting that callers cannot set.

    Args:
        message: Any text.
    """
    return f"{greeting} {message}"
