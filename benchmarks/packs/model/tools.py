"""A tool with a structured result."""

from fastmcp.tools import tool
from pydantic import BaseModel, Field


class Found(BaseModel):
    """What a search found."""

    message: str = Field(description="The text that was searched for")
    length: int = Field(description="Its characters")
    words: list[str] = Field(description="Its words")


@tool
async def model(message: str) -> Found:
    """Describe a message.

    Args:
        message: Any text.
    """
    return Found(message=message, length=len(message), words=message.split())
