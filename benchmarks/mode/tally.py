"""What clients count: calls, sessions, and what went wrong, by kind."""

from collections import Counter
from dataclasses import dataclass, field

import orjson
from mcp_swarm.loadtest.connection import HttpReply
from mcp_swarm.loadtest.judge import judge
from mcp_swarm.loadtest.message import SentRequest

_EXAMPLE = 160
"""Characters of a failure's example."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    begun: float
    """By `time.perf_counter`."""
    ended: float
    replica: str
    """Which answered it rightly; empty if none did."""


@dataclass
class Tally:
    """All that some clients saw."""

    calls: list[Call] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    """Requests of any method that were not answered rightly, by kind."""
    examples: dict[str, str] = field(default_factory=dict)
    """The first failure of each kind."""
    sessions_opened: int = 0
    sessions_lost: int = 0
    """A replica said that it knows no such session."""

    @property
    def calls_lost(self) -> int:
        """Calls that were not answered rightly."""
        return sum(not call.replica for call in self.calls)

    def fail(self, request: SentRequest, kind: str, example: str) -> None:
        """Count a failure."""
        self.failures[kind] += 1
        self.examples.setdefault(kind, f"{request.name}: {example}" if example else request.name)


def failure_of(request: SentRequest, reply: HttpReply) -> tuple[str, str] | None:
    """The kind of a failure, and what came in short; None if the reply is the right one."""
    if 200 <= reply.status < 300:
        return judge(request, reply)
    text = " ".join(reply.body.decode(errors="replace").split())[:_EXAMPLE]
    try:
        message = orjson.loads(reply.body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        message = "no JSON-RPC"  # the proxy's own words
    return f"HTTP {reply.status}, {message}", text
