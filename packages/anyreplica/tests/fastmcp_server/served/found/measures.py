"""Components that a FileSystemProvider finds."""

from fastmcp.prompts import prompt
from fastmcp.resources import resource
from fastmcp.tools import tool


@tool(tags={"measures"})
def inches(centimetres: float) -> float:
    """Convert centimetres to inches."""
    return round(centimetres / 2.54, 2)


@resource("measure://{name}")
def measure(name: str) -> str:
    """Describe a measure."""
    return f"{name} is a measure"


@prompt
def convert(text: str) -> str:
    """Ask for a conversion."""
    return f"Convert {text}."
