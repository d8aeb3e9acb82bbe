"""The checks that a request passes before it is processed. `/mcp`, the SDK endpoint and `/jobs` share them."""

from collections.abc import Callable
from typing import Protocol

from starlette.types import Scope

from anyreplica.http.admission import Admission
from anyreplica.http.body import Body
from anyreplica.http.in_flight import InFlight, Memory
from anyreplica.settings import Settings

Leave = Callable[[], None]


class Limiter(Protocol):
    """A rate limiter: it limits the calls of each caller."""

    async def enter(self, scope: Scope, tool: str, identity: int | str | None) -> Leave | None:
        """Count a call, or raise `Refused` (429). Return a function to call after the answer, or None."""


class Intake:
    """The checks of a replica. A replica has one `Intake`, so that each limit holds for all its requests together."""

    def __init__(self, settings: Settings, limiter: Limiter | None) -> None:
        origins = (*settings.allowed_origins, *settings.cors_origins)
        methods = ["POST"]
        if not settings.stateless_http:
            methods += ["GET", "DELETE"]
        elif settings.handshake_sessions != "off":
            methods += ["GET", "DELETE"] if settings.handshake_sessions == "full" else ["DELETE"]
        self.admission = Admission(settings.allowed_hosts, origins, methods)
        self.in_flight = InFlight(settings.max_in_flight)
        self.responses = InFlight(settings.max_in_flight, "responses of clients in flight (MAX_IN_FLIGHT)")
        self.subscriptions = InFlight(settings.subscriptions, "subscriptions (MAX_SUBSCRIPTIONS)")
        self.memory = Memory(settings.max_buffered_bytes)
        seconds, values = settings.receive_timeout_seconds, settings.max_body_values
        self.body = Body(settings.max_body_bytes, seconds, values, self.in_flight, self.memory)
        self.limiter = limiter

    async def enter(self, place: InFlight, scope: Scope, tool: str, identity: int | str | None, memory: int) -> Leave:
        """Count a request in the limits of requests, memory and rate. Return a function that releases them.

        Args:
            place: The counter: `in_flight` or `subscriptions`.
            scope: The ASGI scope of the request.
            tool: The name of the called tool or job, which may cost more than one call. Empty for other requests.
            identity: The JSON-RPC id of the request.
            memory: The memory of the request, in bytes.

        Raises:
            Refused: 503 (server busy) or 429 (rate limit).
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
