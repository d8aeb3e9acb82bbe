"""The checks that a request passes before it is processed. `/mcp`, the SDK endpoint and `/jobs` share them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from starlette.types import Scope

from anyreplica.http.admission import Admission
from anyreplica.http.body import Body
from anyreplica.http.in_flight import InFlight, Memory
from anyreplica.http.shares import CallerPlaces
from anyreplica.settings import Settings

Leave = Callable[[], None]


Observe = Callable[[Scope, Mapping[str, Any] | None], None]
"""Observes the params of a message. The scope is that of its HTTP request."""


class Limiter(Protocol):
    """A rate limiter: it limits the calls of each caller."""

    async def enter(
        self, scope: Scope, tool: str, identity: int | str | None, *, concurrent: bool = True
    ) -> Leave | None:
        """Count a call, or raise `Refused` (429). Return a function to call after the answer, or None.

        Without `concurrent`, the call does not count for the limit of calls that run at the same time.
        """


class Intake:
    """The checks of a replica. A replica has one `Intake`, so that each limit holds for all its requests together."""

    def __init__(self, settings: Settings, name_of: Callable[[Scope], str | None] = lambda _: None) -> None:
        origins = (*settings.allowed_origins, *settings.cors_origins)
        methods = ["POST"]
        if settings.handshake_sessions != "off":
            methods += ["GET", "DELETE"] if settings.handshake_sessions == "full" else ["DELETE"]
        self.admission = Admission(settings.allowed_hosts, origins, methods)
        self.in_flight = InFlight(settings.max_in_flight)
        self.responses = InFlight(settings.max_in_flight, "responses of clients in flight (MAX_IN_FLIGHT)")
        self.subscriptions = InFlight(settings.subscriptions, "subscriptions (MAX_SUBSCRIPTIONS)")
        # Half, rounded up. Callers that the replica cannot tell apart have no share of their own.
        share = (settings.subscriptions + 1) // 2
        self._places = CallerPlaces(share, "subscriptions, the limit of one caller (half of MAX_SUBSCRIPTIONS)")
        self._name_of = name_of
        self.memory = Memory(settings.max_buffered_bytes)
        seconds, values = settings.receive_timeout_seconds, settings.max_body_values
        self.body = Body(settings.max_body_bytes, seconds, values, self.in_flight, self.memory)
        self.limiter: Limiter | None = None
        """The limiter of the rates of callers. A feature brings it."""
        self.on_message: Sequence[Observe] = ()
        """Functions to call with the params of each message."""
        self.on_call: Sequence[Observe] = ()
        """Functions to call with the params of each request, before a tool gets them and may change them."""

    async def enter(
        self,
        place: InFlight,
        scope: Scope,
        tool: str,
        identity: int | str | None,
        memory: int,
        *,
        concurrent: bool = True,
    ) -> Leave:
        """Count a request in the limits of requests, memory and rate. Return a function that releases them.

        Args:
            place: The counter.
            scope: The ASGI scope of the request.
            tool: The name of the called tool or job, which may cost more than one call. Empty for other requests.
            identity: The JSON-RPC id of the request.
            memory: The memory of the request, in bytes.
            concurrent: Whether the request counts for its caller's limit of calls that run at the same time.

        Raises:
            Refused: 503 (server busy) or 429 (rate limit).
        """
        place.enter(identity)
        taken = 0
        try:
            self.memory.take(memory, identity)
            taken = memory
            limiter = self.limiter
            answered = None if limiter is None else await limiter.enter(scope, tool, identity, concurrent=concurrent)
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

    def count(
        self, scope: Scope, tool: str, identity: int | str | None, memory: int, *, listens: bool
    ) -> Awaitable[Leave]:
        """Count a message of a client: like `listen` if its reply is an event stream that stays open, else `enter`."""
        if listens:
            return self.listen(scope, identity, memory)
        return self.enter(self.in_flight, scope, tool, identity, memory)

    async def listen(
        self, scope: Scope, identity: int | str | None = None, memory: int = 0, *, concurrent: bool = True
    ) -> Leave:
        """Count an event stream that stays open, like `enter`. One caller has at most its share of all streams."""
        name = self._name_of(scope)
        if name is None:
            return await self.enter(self.subscriptions, scope, "", identity, memory, concurrent=concurrent)
        self._places.enter(name, identity)
        try:
            leave = await self.enter(self.subscriptions, scope, "", identity, memory, concurrent=concurrent)
        except BaseException:
            self._places.leave(name)
            raise

        def leave_share() -> None:
            leave()
            self._places.leave(name)

        return leave_share
