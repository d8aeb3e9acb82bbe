"""The smallest tool: it returns its argument."""

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool


@tool
async def echo(message: str, repeat: int = 1) -> str:
    """Return a message one or more times.

    Args:
        message: Any text.
        repeat: Number of times to return the message, 1 to 10, separated by spaces.

    Raises:
        ToolError: `repeat` is not from 1 to 10.
    """
    if not 1 <= repeat <= 10:
        raise ToolError(f"repeat must be from 1 to 10, not {repeat}")
    return " ".join([message] * repeat)
