"""The checks and limits that a request passes before it is processed. `/mcp` and `/jobs` share them."""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from cachetools import FIFOCache
from fastmcp.server.http import HostOriginGuardMiddleware
from starlette.types import Message, Receive, Scope, Send

from anyreplica.http.limits import Body, CallerPlaces, InFlight, Memory
from anyreplica.http.request_record import NO_ERROR, Headers, headers_of, record_of
from anyreplica.http.responses import Refused
from anyreplica.settings import CoreSettings

_REMEMBERED = 1024
"""Maximum number of accepted heads that are cached. Clients send only a few different heads."""

_SHORT = 500
"""Maximum size of a cached head, in bytes. Without this limit, clients could fill the memory with long heads."""

_TRIED = ("GET", "DELETE")
"""Methods that the official clients try. A server without a stream or sessions answers 405 (MCP 2025-11-25, Transports,
"Listening for Messages from the Server" and "Session Management"), so this reply is no error."""

_PASSED = 200

_REFUSALS = {
    403: "Origin not allowed; the operator can add it to ALLOWED_ORIGINS.",
    421: "Host not allowed; the operator can add it to ALLOWED_HOSTS.",
}

Release = Callable[[], None]

Observe = Callable[[Scope, Mapping[str, Any] | None], None]
"""Observes the params of a message. The scope is that of its HTTP request."""


def head_cache_key(scope: Scope, headers: Headers) -> Hashable:
    """Return the parts of a request head that decide whether `HeadCheck` accepts the request."""
    get = headers.get
    checked = get(b"host"), get(b"origin"), get(b"content-type"), get(b"accept")
    return checked, scope["method"], scope["scheme"], tuple(scope["server"] or ())  # some ASGI servers use a list


class HeadCheck:
    """The check of method, Host, Origin, Content-Type and Accept.

    Args:
        allowed_hosts: Accepted names in Host besides the loopback names. Empty: check Host on loopback addresses only.
        allowed_origins: Accepted values of Origin.
        methods: Accepted HTTP methods: POST, and GET and DELETE if the server has sessions that need them.
    """

    def __init__(
        self, allowed_hosts: Sequence[str], allowed_origins: Sequence[str], methods: Sequence[str] = ("POST",)
    ) -> None:
        # FastMCP's protection against DNS rebinding: a page in a browser must not reach a server on a loopback address.
        self._guard = HostOriginGuardMiddleware(
            _pass,
            allowed_hosts=list(allowed_hosts) or None,
            allowed_origins=list(allowed_origins),  # with None, FastMCP would accept every origin in a container
            mode="auto",
        )
        self._methods = methods
        self._accepted: FIFOCache[Hashable, bool] = FIFOCache(_REMEMBERED)
        """For each accepted head: whether the client accepts an event stream. The keys come from `head_cache_key`."""

    async def check(self, scope: Scope, receive: Receive) -> bool:
        """Check the head of a request. Return whether the client accepts an event stream.

        Raises:
            Refused: 421 (Host), 403 (Origin), 405 (method), 415 (Content-Type) or 406 (Accept).
        """
        record = record_of(scope)
        key = head_cache_key(scope, record.headers)
        takes_stream = self._accepted.get(key)
        if takes_stream is None:
            takes_stream = await self._check(scope, receive)
            if scope["method"] == "POST" and sum(len(value) for _, value in scope["headers"]) <= _SHORT:
                self._accepted[key] = takes_stream
        if record.facts is not None:
            record.facts.accept((scope["scheme"], scope["server"]), takes_stream)
        return takes_stream

    async def _check(self, scope: Scope, receive: Receive) -> bool:
        await self.check_source(scope, receive)
        if scope["method"] != "POST":
            if scope["method"] not in self._methods:
                if scope["method"] in _TRIED:
                    record_of(scope).failed = NO_ERROR
                text = "This server has no event stream outside of a call; send each JSON-RPC message with POST."
                raise Refused(405, text, headers={"Allow": ", ".join(self._methods)})
            takes_stream = _accepts(headers_of(scope).get(b"accept"))[1]
            if scope["method"] == "GET" and not takes_stream:
                raise Refused(
                    406, "The reply to GET is an event stream: send the header Accept with text/event-stream."
                )
            return True
        headers = headers_of(scope)
        if _media_type(headers.get(b"content-type", b"")) != b"application/json":
            raise Refused(415, "Wrong Content-Type; send JSON with the header Content-Type: application/json.")
        takes_json, takes_stream = _accepts(headers.get(b"accept"))
        if not takes_json:
            text = "Wrong Accept header; accept application/json (and text/event-stream for progress and log messages)."
            raise Refused(406, text)
        return takes_stream

    async def check_source(self, scope: Scope, receive: Receive) -> None:
        """Check only Host and Origin of a request. Raise `Refused` like `check`."""
        status = 0

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        await self._guard(scope, receive, note)
        if status != _PASSED:
            raise Refused(status, _REFUSALS[status])


def _accepts(value: bytes | None) -> tuple[bool, bool]:
    """Return whether the client accepts JSON, and whether it accepts an event stream.

    A request without Accept accepts any type (RFC 9110, section 12.5.1). But the client gets an event stream only if
    it asks for one.
    """
    if value is None:
        return True, False
    types = {_media_type(part) for part in value.split(b",")}
    anything = b"*/*" in types
    return (
        anything or bool(types & {b"application/json", b"application/*"}),
        anything or bool(types & {b"text/event-stream", b"text/*"}),
    )


def _media_type(value: bytes) -> bytes:
    return value.partition(b";")[0].strip().lower()


async def _pass(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    await send({"type": "http.response.start", "status": _PASSED})


class Limiter(Protocol):
    """A rate limiter: it limits the calls of each caller."""

    @property
    def is_local(self) -> bool:
        """Whether this limiter decides without a wait, so that `acquire_now` may be called."""

    @property
    def has_costs(self) -> bool:
        """Whether the name of the tool matters."""

    def acquire_now(
        self, scope: Scope, tool: str, identity: int | str | None, *, concurrent: bool = True
    ) -> Release | None:
        """Count a call, or raise `Refused` (429). Return a function to call after the answer, or None.

        Without `concurrent`, the call does not count for the limit of calls that run at the same time.
        """

    async def acquire(
        self, scope: Scope, tool: str, identity: int | str | None, *, concurrent: bool = True
    ) -> Release | None:
        """Count a call like `acquire_now`, but wait for the other replicas' share if that is necessary."""


class RequestLimits:
    """The limits of a replica. A replica has one object, so that each limit holds for all its requests together."""

    def __init__(self, settings: CoreSettings, name_of: Callable[[Scope], str | None] = lambda _: None) -> None:
        origins = (*settings.allowed_origins, *settings.cors_origins, *settings.own_origins)
        of_sessions = {"off": ["POST"], "ask": ["POST", "DELETE"], "full": ["GET", "POST", "DELETE"]}
        self.heads = HeadCheck(settings.allowed_hosts, origins, of_sessions[settings.handshake_sessions])
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
        """The limiter of the rates of callers. A feature brings it, see `use`."""
        self.waits = False
        """Whether the limiter may have to wait."""
        self.on_message: Sequence[Observe] = ()
        """Functions to call with the params of each message."""
        self.on_call: Sequence[Observe] = ()
        """Functions to call with the params of each request, before a tool gets them and may change them."""

    def use(self, limiter: Limiter) -> None:
        """Use a limiter of rates."""
        self.limiter, self.waits = limiter, not limiter.is_local

    async def acquire(
        self,
        slot: InFlight,
        scope: Scope,
        tool: str,
        identity: int | str | None,
        memory: int,
        *,
        concurrent: bool = True,
    ) -> Release:
        """Count a request in the limits of requests, memory and rate. Return a function that releases them.

        Args:
            slot: The counter.
            scope: The ASGI scope of the request.
            tool: The name of the called tool or job, which may cost more than one call. Empty for other requests.
            identity: The JSON-RPC id of the request.
            memory: The memory of the request, in bytes.
            concurrent: Whether the request counts for its caller's limit of calls that run at the same time.

        Raises:
            Refused: 503 (server busy) or 429 (rate limit).
        """
        slot.acquire(identity)
        acquired = 0
        try:
            if memory:
                self.memory.acquire(memory, identity)
                acquired = memory
            limiter = self.limiter
            ended = None if limiter is None else await limiter.acquire(scope, tool, identity, concurrent=concurrent)
        except BaseException:
            self._release(slot, acquired)
            raise
        return partial(self._release, slot, memory, ended) if memory or ended else slot.release

    def release_with(self, ended: Release) -> Release:
        """Return a function that ends a request: it decreases the number of requests in flight and calls `ended`."""
        return partial(self._release, self.in_flight, 0, ended)

    def _release(self, slot: InFlight, memory: int, ended: Release | None = None) -> None:
        slot.release()
        self.memory.release(memory)
        if ended is not None:
            ended()

    def count(
        self, scope: Scope, tool: str, identity: int | str | None, memory: int, *, listens: bool
    ) -> Awaitable[Release]:
        """Count a message of a client: `listen` if its reply is an event stream that stays open, else `acquire`."""
        if listens:
            return self.listen(scope, identity, memory)
        return self.acquire(self.in_flight, scope, tool, identity, memory)

    async def listen(
        self, scope: Scope, identity: int | str | None = None, memory: int = 0, *, concurrent: bool = True
    ) -> Release:
        """Count an event stream that stays open, like `acquire`. One caller has at most its share of all streams."""
        name = self._name_of(scope)
        if name is None:
            return await self.acquire(self.subscriptions, scope, "", identity, memory, concurrent=concurrent)
        self._places.acquire(name, identity)
        try:
            release = await self.acquire(self.subscriptions, scope, "", identity, memory, concurrent=concurrent)
        except BaseException:
            self._places.release(name)
            raise

        def release_share() -> None:
            release()
            self._places.release(name)

        return release_share
