"""The servers that are flooded."""

from dataclasses import dataclass, field

from mcp.server.streamable_http_manager import DEFAULT_MAX_SESSIONS, DEFAULT_SESSION_IDLE_TIMEOUT

from benchmarks.flood.sizes import Sizes
from benchmarks.process import Process
from benchmarks.scenarios import ECHO
from benchmarks.study.command import Run

UNBOUNDED = "unbounded"
DEFAULT = "default"
BOUNDED = "bounded"
STATELESS = "stateless"
CONNECTIONS = "connections"

NAMES = (UNBOUNDED, DEFAULT, BOUNDED, STATELESS, CONNECTIONS)
QUICK = (UNBOUNDED, BOUNDED, STATELESS)
"""What fits into half a minute; the others' bounds aren't reached in it."""


@dataclass(frozen=True)
class Case:
    """A server, and how its clients come."""

    name: str
    title: str
    """Of sessions how many there may be, and after how long an idle one is closed."""
    sessions: bool
    """Whether the server opens a session for each client."""
    settings: dict[str, str] = field(default_factory=dict)
    module: str = "server"
    own_connections: bool = False
    """Whether each client makes a connection and keeps it open, or takes over the last one's."""

    def serve(self, run: Run) -> Process:
        """Start it on the servers' core."""
        return Process(
            self.module,
            core=run.machine.server_core,
            folder=run.folder,
            MCP_COMPONENTS=f"benchmarks.packs.{ECHO.pack}",
            REPLICA_NAME="benchmark",
            STATELESS_HTTP="false" if self.sessions else "true",
            # No client is sent away because its connection has carried a lot.
            MAX_REQUESTS_PER_CONNECTION="0",
            MAX_CONNECTION_AGE_SECONDS="0",
            **self.settings,
        )


def cases(sizes: Sizes) -> list[Case]:
    """All of them."""
    bounds = "benchmarks.flood.bounds"
    minutes = DEFAULT_SESSION_IDLE_TIMEOUT / 60
    tight = {"SESSIONS_MOST": str(sizes.most), "FASTMCP_HTTP_SESSION_IDLE_TIMEOUT": f"{sizes.idle:g}"}
    none = {"SESSIONS_MOST": "none", "FASTMCP_HTTP_SESSION_IDLE_TIMEOUT": "none"}
    return [
        Case(UNBOUNDED, "sessions, no bounds", True, none, bounds),
        Case(DEFAULT, f"sessions, {DEFAULT_MAX_SESSIONS:,}, {minutes:g} min (SDK)", True),
        Case(BOUNDED, f"sessions, {sizes.most:,}, {sizes.idle:g} s", True, tight, bounds),
        Case(STATELESS, "stateless", False),
        Case(
            CONNECTIONS, "stateless, own connections", False, {"MAX_CONNECTIONS": str(sizes.most)}, own_connections=True
        ),
    ]
