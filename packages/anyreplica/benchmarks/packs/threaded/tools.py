"""A synchronous tool, which runs in a thread."""

from fastmcp.tools import tool


@tool
def threaded(message: str) -> str:
    """Return the message from a thread.

    Args:
        message: Any text.
    """
    return message
