"""Tools that tell something of the trace that they are called in."""

import logging

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool

from mcp_swarm import downstream

logger = logging.getLogger(__name__)


@tool
async def ask(url: str) -> str:
    """Ask another server."""
    return (await downstream.get(url)).text


@tool
async def say(words: str) -> str:
    """Write a line of log."""
    logger.info("said: %s", words)
    return words


@tool
async def break_down() -> None:
    """Raise what isn't meant for a caller."""
    raise LookupError("the shelf is empty")


@tool
async def name_oddly() -> None:
    """Raise what UTF-8 can't carry."""
    raise ToolError("no file \udcff")
