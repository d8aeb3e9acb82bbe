"""A tool that runs as a task."""

from fastmcp.tools import tool


@tool(task=True)
async def repeat_as_task(text: str, times: int) -> str:
    """Return the text some times."""
    return text * times
