"""A sample tool that reads a setting: it returns public information about the server."""

import time

from anyreplica import __version__, replica_name
from fastmcp.tools import tool
from pydantic import BaseModel, Field

from server.config import Settings

_SETTINGS = Settings.load()
_STARTED = time.monotonic()


class ServerInfo(BaseModel):
    """Information about the server and the replica that answered."""

    name: str = Field(description="Name of the server, the same on all replicas")
    version: str = Field(description="Version of anyreplica")
    replica: str = Field(description="Name of the replica that ran this call")
    uptime_seconds: float = Field(description="Time since the start of this replica, in seconds")


@tool(annotations={"readOnlyHint": True})
async def server_info() -> ServerInfo:
    """Return the name and version of the server, the replica that answered, and its uptime in seconds."""
    return ServerInfo(
        name=_SETTINGS.mcp_name,
        version=__version__,
        replica=replica_name(_SETTINGS),
        uptime_seconds=round(time.monotonic() - _STARTED, 3),
    )
