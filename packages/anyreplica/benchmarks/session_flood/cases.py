"""The servers that are flooded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcp.server.streamable_http_manager import DEFAULT_MAX_SESSIONS, DEFAULT_SESSION_IDLE_TIMEOUT

from benchmarks.process import Process, replica


@dataclass(frozen=True)
class Case:
    """A server with or without sessions."""

    name: str
    title: str
    sessions: bool
    """True if the server opens a session for each client."""
    settings: Mapping[str, str] = field(default_factory=dict)

    def serve(self, core: int, folder: Path) -> Process:
        """Start the server."""
        module = "benchmarks.session_flood.bounds" if self.settings else "server"
        stateless = "false" if self.sessions else "true"
        return replica("echo", core, folder, module, STATELESS_HTTP=stateless, **self.settings)


def _limits(sessions: str, idle_seconds: str) -> dict[str, str]:
    return {"SESSIONS_MOST": sessions, "FASTMCP_HTTP_SESSION_IDLE_TIMEOUT": idle_seconds}


_SDK = f"sessions, at most {DEFAULT_MAX_SESSIONS:,}, idle {DEFAULT_SESSION_IDLE_TIMEOUT / 60:g} min (SDK)"
STATELESS = Case("stateless", "stateless", sessions=False)
CASES = (
    Case("unbounded", "sessions, no limits", sessions=True, settings=_limits("none", "none")),
    Case("default", _SDK, sessions=True),
    Case("bounded", "sessions, at most 1,000, idle 5 s", sessions=True, settings=_limits("1000", "5")),
    STATELESS,
)
