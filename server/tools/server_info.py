"""What a caller may know of the server."""

import time

from fastmcp.tools import tool
from mcp_swarm import __version__, replica_name
from pydantic import BaseModel, Field

from server.config import Settings

_SETTINGS = Settings.load()
_STARTED = time.monotonic()


class ServerInfo(BaseModel):
    """Which server and which replica answered."""

    name: str = Field(description="The server's name, the same on every replica")
    version: str = Field(description="The version of mcp-swarm")
    replica: str = Field(description="The replica that ran this call")
    uptime_seconds: float = Field(description="Seconds since that replica started")


@tool(annotations={"readOnlyHint": True})
async def server_info() -> ServerInfo:
    """Tell which replica of which server answers, and for how long it has been up (seconds)."""
    return ServerInfo(
        name=_SETTINGS.mcp_name,
        version=__version__,
        replica=replica_name(_SETTINGS),
        uptime_seconds=round(time.monotonic() - _STARTED, 3),
    )
