"""A tool that returns information about the server."""

import time

from fastmcp.tools import tool
from pydantic import BaseModel, Field

from anyreplica import Settings, __version__, replica_name

_SETTINGS = Settings.load()
_STARTED = time.monotonic()


class ServerInfo(BaseModel):
    """The server and the replica that answered."""

    name: str = Field(description="The server's name, the same on every replica")
    version: str = Field(description="The server's version")
    replica: str = Field(description="The replica that ran this call")
    uptime_seconds: float = Field(description="Seconds since that replica started")


@tool(annotations={"readOnlyHint": True})
async def server_info() -> ServerInfo:
    """Return the name and version of the server, the name of the replica and its uptime in seconds."""
    return ServerInfo(
        name=_SETTINGS.mcp_name,
        version=__version__,
        replica=replica_name(_SETTINGS),
        uptime_seconds=round(time.monotonic() - _STARTED, 3),
    )
