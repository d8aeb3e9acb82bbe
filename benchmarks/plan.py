"""How a run measures, and the processes that it measures."""

from dataclasses import dataclass
from pathlib import Path

from mcp_swarm.auth.key import KeyEntry, hash_of

from benchmarks.process import Process

CONNECTIONS = (1, 32)
"""The loads: a single caller, and as many as keep the server busy."""

_WARM_UP = 0.3


@dataclass(frozen=True)
class Plan:
    """How to measure."""

    rounds: int
    seconds: float
    """Of one measurement: one scenario under one number of connections in one round."""
    starts: int
    """How often a server is started for the time that it takes."""
    calls: int
    """How many calls may make the memory grow; a tenth as many go before."""
    core: int
    """The CPU core of the servers."""
    log_level: str
    folder: Path
    """For the servers' logs."""

    @property
    def warm_up(self) -> float:
        """Seconds in which each reply is checked before anything counts."""
        return min(_WARM_UP, self.seconds)

    @property
    def logs_requests(self) -> bool:
        """Whether the server logs a line a request."""
        return self.log_level in ("DEBUG", "INFO")

    def serve(self, pack: str, key: str = "") -> Process:
        """Start the server with one of the packages; without one, the floor.

        Args:
            key: of the only caller that it serves, by a rate that is never reached, and with an audit log.
        """
        if not pack:
            return Process("benchmarks.floor", core=self.core, folder=self.folder)
        return Process(
            "server",
            core=self.core,
            folder=self.folder,
            MCP_COMPONENTS=f"benchmarks.packs.{pack}",
            REPLICA_NAME="benchmark",
            LOG_LEVEL=self.log_level,
            # The load keeps its connections; a new one for a thousand requests would cost a tenth of a percent.
            MAX_REQUESTS_PER_CONNECTION="0",
            MAX_CONNECTION_AGE_SECONDS="0",
            **(self._secured(key) if key else {}),
        )

    def _secured(self, key: str) -> dict[str, str]:
        keys = self.folder / "api_keys"
        keys.write_text(KeyEntry(id="caller", hash=hash_of(key), rate="1000000/s").model_dump_json(exclude_none=True))
        return {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(keys), "AUDIT_LOG": str(self.folder / "audit.log")}
