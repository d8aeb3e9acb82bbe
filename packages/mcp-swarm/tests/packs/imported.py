"""A tool that tells which modules a replica has imported."""

import sys

from fastmcp.tools import tool


@tool
def imported(name: str) -> bool:
    """Say whether a module was imported."""
    return name in sys.modules
