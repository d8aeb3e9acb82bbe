"""Dependencies of tools, resources and prompts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext, CurrentFastMCP, CurrentHeaders, Depends
from uncalled_for import Shared

mcp = FastMCP("dependencies")
closed: list[str] = []
pools: list[str] = []


def tenant() -> str:
    """Return the tenant."""
    return "acme"


@asynccontextmanager
async def connection(of: str = Depends(tenant)) -> AsyncIterator[str]:
    """Open a connection for the tenant, and close it after the call."""
    closed.clear()
    yield f"connection of {of}"
    closed.append(of)


@asynccontextmanager
async def pool(of: str = Depends(tenant)) -> AsyncIterator[str]:
    """Open a pool of connections, and close it when the replica stops."""
    pools.append(of)
    yield f"pool {len(pools)} of {of}"


@mcp.tool
async def shared(opened: str = Shared(pool)) -> str:
    """Use the pool that all calls of this replica share."""
    return opened


@mcp.tool
async def depends(number: int, opened: str = Depends(connection)) -> str:
    """Use a connection that must still be open."""
    return f"{number}: {opened}, closed {closed}"


@mcp.tool
def with_context(
    ctx: Context = CurrentContext(),  # noqa: B008
    server: FastMCP = CurrentFastMCP(),  # noqa: B008
    headers: dict[str, str] = CurrentHeaders(),  # noqa: B008
) -> str:
    """Return what FastMCP injects."""
    return f"{ctx.fastmcp.name}, {server.name}, {headers['x-test']}"


@mcp.resource("tenant://{name}")
def tenants(name: str, of: str = Depends(tenant)) -> str:
    """Return whether a tenant is the caller's."""
    return f"{name}: {name == of}"


@mcp.prompt
def introduce(of: str = Depends(tenant)) -> str:
    """Introduce the tenant."""
    return f"We are {of}."
