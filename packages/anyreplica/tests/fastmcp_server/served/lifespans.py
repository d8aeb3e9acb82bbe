"""Lifespans: of the server, composed of two, and of a mounted server."""

from collections.abc import AsyncIterator
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.server.lifespan import lifespan


@lifespan
async def settings(server: FastMCP[Any]) -> AsyncIterator[dict[str, Any]]:
    """Read the settings."""
    yield {"settings": "read"}


@lifespan
async def database(server: FastMCP[Any]) -> AsyncIterator[dict[str, Any]]:
    """Open the database."""
    yield {"database": "open"}


@lifespan
async def printer(server: FastMCP[Any]) -> AsyncIterator[dict[str, Any]]:
    """Open the printer, for the mounted server only."""
    yield {"printer": f"open for {server.name}"}


mcp = FastMCP("printing", lifespan=printer)


@mcp.tool
def printing(ctx: Context) -> dict[str, str]:
    """Return what the lifespan of the mounted server has opened."""
    return dict(ctx.lifespan_context)


def add_to(server: FastMCP[Any]) -> None:
    """Add a tool that returns what the lifespans of this server have opened."""

    @server.tool
    def opened(ctx: Context) -> dict[str, str]:
        return dict(ctx.lifespan_context)
