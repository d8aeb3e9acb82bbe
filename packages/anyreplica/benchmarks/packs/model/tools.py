"""A tool with a structured result."""

from fastmcp.tools import tool
from pydantic import BaseModel, Field


class Found(BaseModel):
    """The result of a search."""

    message: str = Field(description="Searched text")
    length: int = Field(description="Number of its characters")
    words: list[str] = Field(description="Its words")


@tool
async def model(message: str) -> Found:
    """Describe a message.

    Args:
        message: Any text.
    """
    return Found(message=message, length=len(message), words=message.split())
