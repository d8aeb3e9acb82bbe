"""A tool that shows if a replica has imported a module."""

import sys

from fastmcp.tools import tool


@tool
def imported(name: str) -> bool:
    """Return whether this replica has imported a module."""
    return name in sys.modules
