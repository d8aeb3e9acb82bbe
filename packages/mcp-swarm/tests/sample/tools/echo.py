"""The smallest tool: it gives back what it was given."""

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool


@tool
async def echo(message: str, repeat: int = 1) -> str:
    """Give a message back, as often as asked.

    Args:
        message: Any text.
        repeat: How often to repeat it, 1 to 10 times, with a space in between.

    Raises:
        ToolError: `repeat` is not from 1 to 10.
    """
    if not 1 <= repeat <= 10:
        raise ToolError(f"repeat must be from 1 to 10, not {repeat}")
    return " ".join([message] * repeat)
