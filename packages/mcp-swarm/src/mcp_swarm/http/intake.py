"""The steps that a request passes before anything works on it: /mcp, the SDK's own endpoint and /jobs share them."""

from collections.abc import Callable
from typing import Protocol

from starlette.types import Scope

from mcp_swarm.http.admission import Admission
from mcp_swarm.http.body import Body
from mcp_swarm.http.in_flight import InFlight, Memory
from mcp_swarm.settings import Settings

Leave = Callable[[], None]


class Limiter(Protocol):
    """Holds each caller to its rate."""

    async def enter(self, scope: Scope, tool: str, identity: int | str | None) -> Leave | None:
        """Let a call in, or raise `Refused` (429). Returns what to call when it is answered, if anything."""


class Intake:
    """The steps, in their order. One for a replica, so that each limit holds for all of its requests together."""

    def __init__(self, settings: Settings, limiter: Limiter | None) -> None:
        origins = (*settings.allowed_origins, *settings.cors_origins)
        self.admission = Admission(settings.allowed_hosts, origins, only_post=settings.stateless_http)
        self.in_flight = InFlight(settings.max_in_flight)
        self.subscriptions = InFlight(settings.subscriptions, "subscriptions (MAX_SUBSCRIPTIONS)")
        self.memory = Memory(settings.max_buffered_bytes)
        seconds, values = settings.receive_timeout_seconds, settings.max_body_values
        self.body = Body(settings.max_body_bytes, seconds, values, self.in_flight, self.memory)
        self.limiter = limiter

    async def enter(self, place: InFlight, scope: Scope, tool: str, identity: int | str | None, memory: int) -> Leave:
        """Take a place, memory, and one of the caller's calls; returns what gives them back.

        Args:
            place: `in_flight` or `subscriptions`.
            tool: the tool or job that is called, which may cost more than one call; else empty.
            identity: the JSON-RPC id.
            memory: bytes.

        Raises:
            Refused: 503 or 429.
        """
        place.enter(identity)
        taken = 0
        try:
            self.memory.take(memory, identity)
            taken = memory
            answered = None if self.limiter is None else await self.limiter.enter(scope, tool, identity)
        except BaseException:
            place.leave()
            self.memory.give(taken)
            raise

        def leave() -> None:
            place.leave()
            self.memory.give(memory)
            if answered is not None:
                answered()

        return leave
