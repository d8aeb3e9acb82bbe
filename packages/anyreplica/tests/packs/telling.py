"""Tools that send a request, write a log line or raise an error inside the trace of their call."""

import logging

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool

from anyreplica import downstream

logger = logging.getLogger(__name__)


@tool
async def ask(url: str) -> str:
    """Send a request to another server."""
    return (await downstream.get(url)).text


@tool
async def say(words: str) -> str:
    """Write a log line."""
    logger.info("said: %s", words)
    return words


@tool
async def break_down() -> None:
    """Raise an error whose text the caller must not see."""
    raise LookupError("the shelf is empty")


@tool
async def name_oddly() -> None:
    """Raise an error with text that UTF-8 cannot encode."""
    raise ToolError("no file \udcff")
