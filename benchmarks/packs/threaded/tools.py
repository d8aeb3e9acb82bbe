"""A plain `def`, which runs in a thread."""

from fastmcp.tools import tool


@tool
def threaded(message: str) -> str:
    """Give a message back, from a thread.

    Args:
        message: Any text.
    """
    return message
