"""Resources that exist and resources that do not exist."""

from typing import Literal

from fastmcp import Context
from fastmcp.exceptions import NotFoundError
from fastmcp.resources import resource
from fastmcp.tools import tool


@resource("item://{number}")
def item(number: int) -> str:
    """Return one of three items."""
    if number > 3:
        raise NotFoundError(f"there are three items, and none is number {number}")
    return f"item {int(number)}"


@resource("size://{size}")
async def size(size: Literal["small", "large"]) -> str:
    """Return one of two sizes."""
    return size


@resource("gone://now")
async def gone() -> str:
    """A resource that no longer exists."""
    raise NotFoundError("gone since yesterday")


@resource("broken://{name}")
async def broken(name: str) -> str:
    """A resource whose function fails with the same error as a wrong argument."""
    return str(int(name))


@tool
async def read_or(uri: str, ctx: Context) -> str:
    """Read a resource, or report that it does not exist."""
    try:
        return str((await ctx.read_resource(uri)).contents[0].content)
    except NotFoundError as error:
        return f"nothing there: {error}"
