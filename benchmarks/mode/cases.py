"""The ways to keep what a client said, which are compared."""

from dataclasses import dataclass
from typing import Literal

from mcp_swarm.loadtest.message import Family

STORE_URL = "BENCHMARK_SESSION_STORE"
"""The environment variable that names the Redis of `benchmarks.mode.shared_sessions`."""


@dataclass(frozen=True)
class Case:
    """One row."""

    name: str
    title: str
    door: Literal["turns", "affinity"] = "turns"
    """Of the proxy's."""
    family: Family = Family.LEGACY


@dataclass(frozen=True)
class Kind:
    """Replicas that are run alike, and the cases that are measured on them: what happens to them happens to all."""

    name: str
    module: str
    settings: dict[str, str]
    cases: list[Case]
    stores: bool = False
    """Whether they need a Redis."""


ALONE = Case("sessions", "sessions, no affinity")
AFFINITY = Case("affinity", "sessions, affinity", "affinity")
STORE = Case("store", "sessions, shared store")
STATELESS = Case("stateless", "stateless, handshake")
MODERN = Case("stateless-2026", "stateless, 2026-07-28", family=Family.MODERN)

CASES = [ALONE, AFFINITY, STORE, STATELESS, MODERN]

_SESSIONS = {"STATELESS_HTTP": "false"}

KINDS = [
    Kind("sessions", "server", _SESSIONS, [ALONE, AFFINITY]),
    Kind("shared sessions", "benchmarks.mode.shared_sessions", _SESSIONS, [STORE], stores=True),
    Kind("stateless", "server", {}, [STATELESS, MODERN]),
]
