"""A sample tool with an error for a wrong argument: it returns its message."""

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool


@tool(annotations={"readOnlyHint": True})
async def echo(message: str, repeat: int = 1) -> str:
    """Return a message, once or several times.

    Args:
        message: Any text.
        repeat: How many times to return the message, from 1 to 10, separated by spaces.

    Raises:
        ToolError: `repeat` is not from 1 to 10.
    """
    if not 1 <= repeat <= 10:
        raise ToolError(f"repeat must be from 1 to 10, not {repeat}")
    return " ".join([message] * repeat)
