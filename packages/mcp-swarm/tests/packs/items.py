"""Resources of which some are there and some are not."""

from typing import Literal

from fastmcp import Context
from fastmcp.exceptions import NotFoundError
from fastmcp.resources import resource
from fastmcp.tools import tool


@resource("item://{number}")
def item(number: int) -> str:
    """One of three items."""
    if number > 3:
        raise NotFoundError(f"there are three items, and none is number {number}")
    return f"item {int(number)}"


@resource("size://{size}")
async def size(size: Literal["small", "large"]) -> str:
    """One of two sizes."""
    return size


@resource("gone://now")
async def gone() -> str:
    """A resource that isn't there any more."""
    raise NotFoundError("gone since yesterday")


@resource("broken://{name}")
async def broken(name: str) -> str:
    """A resource whose function fails, with the error that a wrong argument has."""
    return str(int(name))


@tool
async def read_or(uri: str, ctx: Context) -> str:
    """Read a resource, or say that it isn't there."""
    try:
        return str((await ctx.read_resource(uri)).contents[0].content)
    except NotFoundError as error:
        return f"nothing there: {error}"
