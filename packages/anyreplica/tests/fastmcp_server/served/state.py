"""State that outlives a call: of a client's session, of FastMCP's session tools, and of a user."""

from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.server.dependencies import get_session
from fastmcp.server.sessions import SessionId, SessionProvider, UserSession

mcp = FastMCP("kept", providers=[SessionProvider()])


async def _remember(value: str, ctx: Context) -> str:
    """Remember a value for this session."""
    await ctx.set_state("value", value)
    return value


async def _recall(ctx: Context) -> str:
    """Return the value that this session remembers."""
    return str(await ctx.get_state("value"))


async def _write(session_id: SessionId, value: str) -> str:
    """Write a value into the session that `create_session` has made."""
    session = await get_session(session_id)
    await session.set("value", value)
    return value


async def _read(session_id: SessionId) -> str:
    """Read the value of the session."""
    session = await get_session(session_id)
    return str(await session.get("value"))


async def _note(value: str, session: UserSession) -> str:
    """Note a value for the user."""
    await session.set("value", value)
    return value


async def _noted(session: UserSession) -> str:
    """Return the value that the user has noted."""
    return str(await session.get("value"))


def add_to(server: FastMCP[Any]) -> None:
    """Add the tools to a server."""
    for tool in (_remember, _recall, _write, _read, _note, _noted):
        server.tool(tool, name=tool.__name__.removeprefix("_"))


add_to(mcp)
