"""The tools of generated servers, by kind. Each kind is a function that makes the tool's function."""

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from datetime import date
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentFastMCP, Depends
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context, get_server
from fastmcp.tools import ToolResult
from fastmcp.utilities.types import Image
from mcp import MCPError
from mcp_types import INVALID_PARAMS, TextContent
from pydantic import BaseModel


class Point(BaseModel):
    """A value with a schema."""

    x: int
    y: float = 0.5


@contextlib.asynccontextmanager
async def _opened(ctx: Context) -> AsyncIterator[str]:
    """Open something for the server of the call."""
    yield f"opened for {ctx.fastmcp.name}"


def plain(x: int = 1) -> int:
    """Return the next number."""
    return x + 1


async def point(x: int = 1) -> Point:
    """Return a model."""
    return Point(x=x)


def untyped(x: int = 1):  # type: ignore[no-untyped-def]
    """Return a value without a declared type."""
    return [x, {"day": date(2026, 7, 28)}]


async def server_name(ctx: Context, x: int = 1) -> str:
    """Return the names of the server of this call, as FastMCP offers them."""
    return f"{ctx.fastmcp.name} {get_server().name} {get_context().fastmcp.name} {ctx.transport} {x}"


async def lifespan(ctx: Context) -> dict[str, Any]:
    """Return what the lifespan of the server has opened."""
    return dict(ctx.lifespan_context)


async def state(ctx: Context, x: int = 1) -> str:
    """Return what the middleware has put into the state of the request, and put something into it."""
    found = await ctx.get_state("trace")
    await ctx.set_state("trace", f"tool {x}", serializable=False)
    return f"{found} then {await ctx.get_state('trace')}"


async def depends(x: int = 1, of: str = Depends(_opened), server: FastMCP = CurrentFastMCP()) -> str:  # noqa: B008
    """Return its dependencies."""
    return f"{x} {of} {server.name}"


async def calls_another(ctx: Context, name: str = "plain") -> str:
    """Call another tool of its own server."""
    result = await ctx.fastmcp.call_tool(name, {})
    return " ".join(each.text for each in result.content if isinstance(each, TextContent))


def tool_error(x: int = 1) -> str:
    """Raise an error for the client."""
    raise ToolError(f"no {x}")


def value_error(x: int = 1) -> str:
    """Raise an error that is not for the client."""
    raise ValueError(f"secret {x}")


def protocol_error() -> str:
    """Raise an error of the protocol."""
    raise MCPError(INVALID_PARAMS, "refused")


def invalid_model() -> Point:
    """Raise a pydantic error in the body."""
    return Point.model_validate({"x": "no"})


def nothing() -> None:
    """Return nothing."""


def odd(x: int = 1) -> Any:
    """Return a result with all parts."""
    return ToolResult(content=[TextContent(type="text", text=f"{x}")], structured_content={"x": x}, meta={"m": x})


def picture() -> Image:
    """Return an image."""
    return Image(data=b"png", format="png")


def wrong_type() -> int:
    """Return a value that does not have the declared type."""
    return "text"  # type: ignore[return-value]


async def logs(ctx: Context, x: int = 1) -> str:
    """Send messages before the result."""
    await ctx.info(f"log {x}")
    await ctx.report_progress(x, 2)
    return "logged"


KINDS: dict[str, Callable[..., Any]] = {
    name: each
    for name, each in globals().items()
    if inspect.isfunction(each) and each.__module__ == __name__ and not name.startswith("_")
}
"""Each public function of this module, by its name."""

WITH_X = sorted(name for name, fn in KINDS.items() if "x" in inspect.signature(fn).parameters)
"""The kinds of tools with the argument `x`."""
