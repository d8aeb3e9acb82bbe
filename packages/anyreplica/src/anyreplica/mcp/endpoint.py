"""The endpoint of `/mcp`: it checks a request, and chooses the path that answers it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from anyreplica.http.request_limits import Limiter, Release, RequestLimits
from anyreplica.http.request_record import LONGEST, RECORD, Headers, RequestRecord, record_of
from anyreplica.http.responses import PING_SECONDS, ClientGone, Refused, send_refusal, send_response
from anyreplica.http.trace_context import untraced
from anyreplica.mcp.call import OFF, Call, HandshakeSessions
from anyreplica.mcp.call_span import in_span, is_on
from anyreplica.mcp.compat import mounts, shared_dependencies
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.fast_path import DirectPath, FastPath
from anyreplica.mcp.fastmcp_path import CACHED_METHODS, CachedLists, FastMcpPath
from anyreplica.mcp.message import (
    Envelopes,
    Notification,
    Request,
    Response,
    called,
    called_tool,
    check_envelope,
    check_param_headers,
    check_served,
    handshake_version,
    parse,
    routing_of,
    unexpected_response,
)
from anyreplica.mcp.plan import DirectPlan
from anyreplica.mcp.planning import Plans, plan, plan_sdk_server
from anyreplica.mcp.reply import Reply
from anyreplica.mcp.server_setup import ServerSetup, own_work
from anyreplica.process import replica
from anyreplica.process.event_loop import background_task
from anyreplica.settings import CoreSettings

logger = logging.getLogger(__name__)

Message = Request | Notification | Response

_HANDSHAKE, _STATELESS = ("handshake", "fast"), ("stateless", "fast")
"""Protocol family and path for the access log. The FastMCP path replaces them when it takes a request over."""

_RETRY_SECONDS = 30
"""Pause before the next attempt to list the tools of a server whose tools could not be listed."""

_LISTEN = "subscriptions/listen"

_LONGEST_LISTEN = 64 * 1024
"""Maximum size of a subscription request, in bytes. The request stays in memory while the subscription is open."""


_SMALL = 1000
"""Maximum size of a body that needs no check of its size and of its number of JSON values, in bytes: the smallest
MAX_BODY_BYTES and MAX_BODY_VALUES."""


class CallPaths:
    """The ways to answer a request: the fast path, the direct path, the cached lists, and otherwise the FastMCP path.

    Args:
        state: the value of FastMCP's lifespan.
        seconds: time limit of a call.
        keeps_state: whether sessions have state, which needs FastMCP's steps.
    """

    def __init__(self, setup: ServerSetup, state: Any, seconds: float, *, keeps_state: bool) -> None:
        mcp = self.mcp = setup.mcp
        self.setup = setup
        self.seconds = seconds
        self.fallback = FastMcpPath(mcp, state)
        self.traced = is_on()
        handed_over = FastMcpPath(mcp, state, in_span=True) if self.traced else self.fallback
        envelopes = Envelopes()
        self.fast = FastPath(mcp, state, handed_over, envelopes)
        self.direct = DirectPath(mcp, state, handed_over)
        self.lists = CachedLists(handed_over, envelopes)
        self.plans = Plans()
        self.keeps_state = keeps_state
        self._changing = mounts.changing(mcp)
        self._planned: object = None
        self._is_planned = False
        self._planning = asyncio.Lock()

    async def plan(self, *, again: bool = False) -> None:
        """Decide the path of each tool. This is repeated after each change of the components.

        If the tools cannot be listed, for example because the server behind a proxy is away, FastMCP answers all
        requests. `keep_planning` then tries again.

        Args:
            again: whether to make new plans even if nothing has changed.

        Raises:
            Exception: the tools cannot be listed at the start, and no provider can be the reason.
        """
        async with self._planning:
            # Another request may have made the plans while this one waited for the lock.
            if again or self._stamp() != self._planned:
                try:
                    await self._plan()
                    self._is_planned = True
                except Exception as error:
                    if self._planned is None and not mounts.has_unsteady_provider(self.mcp):
                        raise
                    reason = " ".join(f"{type(error).__name__}: {error}".split())
                    logger.warning("The tools cannot be listed (%.300s); FastMCP answers all requests", reason)
                    logger.debug("The reason in full", exc_info=True)
                    self.plans, self._planned, self._is_planned = Plans(), self._stamp(), False
                    self.lists.forget()

    async def keep_planning(self) -> None:
        """Every `_RETRY_SECONDS`, try again to make the plans, if the last try failed. This method never returns."""
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            if not self._is_planned:
                await self.plan(again=True)

    async def _plan(self) -> None:
        self.setup.apply()  # a server may have been mounted since
        self._changing = mounts.changing(self.mcp)
        stamp = self._stamp()
        with own_work():
            if isinstance(self.mcp, SdkServer):
                self.plans = plan_sdk_server(self.mcp)
            else:
                self.plans = await plan(self.mcp, self.seconds, self.setup.timeouts, keeps_state=self.keeps_state)
        self._planned = stamp
        self.lists.forget()
        paths = self.plans.paths
        for path in sorted(set(paths.values())):
            # Several local replicas would log the same lines before the address.
            level = logging.DEBUG if replica.beside_others else logging.INFO
            logger.log(level, "Path of %s: %s", ", ".join(tool for tool in paths if paths[tool] == path), path)

    def _stamp(self) -> tuple[int, ...]:
        """Return a value that differs after each change of the components or of what decides the paths."""
        changes, counted = self._changing
        return changes(), *map(len, counted)

    def answer(self, call: Call) -> Awaitable[None]:
        """Answer a request. Awaiting the reply raises `ClientGone` if the client closes the connection."""
        if self._stamp() != self._planned:
            return self._plan_and_answer(call)
        call.record.path = _STATELESS if call.modern else _HANDSHAKE
        method = call.request.method
        if method == "tools/call":
            planned = self.fast.plan_for(call, self.plans)
            if isinstance(planned, DirectPlan):
                # Only the FastMCP path makes all spans of such a call.
                return self.fallback.answer(call) if self.traced else self.direct.answer(call, planned)
            if planned is not None:
                if self.traced:
                    return in_span(self.mcp, call, partial(self.fast.answer, call, planned), planned.tool)
                return self.fast.answer(call, planned)
        elif method in CACHED_METHODS and self.plans.cacheable:
            if self.traced:
                return in_span(self.mcp, call, partial(self.lists.answer, call))
            return self.lists.answer(call)
        return self.fallback.answer(call)

    async def _plan_and_answer(self, call: Call) -> None:
        await self.plan()
        await self.answer(call)


class McpEndpoint:
    """The ASGI endpoint: it reads a request body once, checks the request by its protocol, and selects a path."""

    paths: CallPaths
    """The paths that answer requests. The attribute exists after the server has started."""

    def __init__(
        self,
        setup: ServerSetup,
        settings: CoreSettings,
        limits: RequestLimits,
    ) -> None:
        self.mcp = setup.mcp
        self.setup = setup
        self.sessions: HandshakeSessions | None = None
        """The sessions of clients; None: each request stands alone. It is set before the first request."""
        self.seconds = settings.call_timeout_seconds
        self.first_event_seconds = settings.first_event_seconds
        self.limits = limits
        self._release = limits.in_flight.release
        self.streams = settings.json_response != "true"
        """Whether a reply may become an event stream, if the client accepts one."""
        self.always_streams = settings.json_response == "false"
        """Whether a reply of the handshake protocol must be an event stream, if the client accepts one."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open FastMCP's lifespan and plan the tools; the endpoint answers requests inside the `async with` block."""
        async with shared_dependencies.lifespan(self.mcp) as state:
            keeps_state = self.sessions is not None and self.sessions.keeps_state
            self.paths = CallPaths(self.setup, state, self.seconds, keeps_state=keeps_state)
            with untraced():
                await self.paths.plan()
            async with background_task(self.paths.keep_planning()):
                yield

    def answer_by_fallback(self, call: Call) -> Awaitable[None]:
        """Answer a call on the FastMCP path."""
        return self.paths.fallback.answer(call)

    def tool_paths(self) -> Mapping[str, str]:
        """Return the path of each tool. A path other than the plain fast path includes its reason or condition."""
        return self.paths.plans.paths

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer a request."""
        if scope["method"] == "POST":
            return self._answer(scope, receive, send)
        return self._without_body(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = None
        try:
            record: RequestRecord = scope.get(RECORD) or record_of(scope)
            headers = record.headers
            limits = self.limits
            facts = record.facts
            if facts is not None and facts.accepted_at == (scope["scheme"], scope["server"]):
                takes_stream = facts.accepts_events
            else:
                takes_stream = await limits.heads.check(scope, receive)
            # Our HTTP server returns a small body without a wait, unless a middleware has replaced `receive`.
            at_once = getattr(getattr(receive, "__self__", None), "body_at_once", None)
            body = None if at_once is None else at_once(_SMALL)
            # No variable refers to the body that `read` returns, because it may be large.
            message = parse(await limits.body.read(receive, headers.get(b"content-length")) if body is None else body)
            for observe in limits.on_message:
                observe(scope, message.params)
            if isinstance(message, Request):
                call = self._call(message, takes_stream, record, scope, receive, send)
            elif isinstance(message, Response) and self.sessions is not None:
                await self.sessions.receive_response(message, headers, scope, send)
                return
            listens = message.method == _LISTEN
            if listens or message.memory or limits.waits:
                release = await limits.count(scope, called_tool(message), message.id, message.memory, listens=listens)
            else:
                limits.in_flight.acquire(message.id)
                release = self._release
                if limits.limiter is not None:
                    release = self._apply_rates(limits.limiter, scope, message)
            try:
                await (self._acknowledge(message, headers, scope, send) if call is None else self.paths.answer(call))
            except asyncio.CancelledError:  # the replica stops, and SHUTDOWN_GRACE_SECONDS are over
                await _stop(call)
                raise
            finally:
                release()
        except Refused as refused:
            await send_refusal(scope, send, refused)
        except ClientGone:
            await _release(call)

    def _apply_rates(self, limiter: Limiter, scope: Scope, message: Message) -> Release:
        """Apply the rate limits to a request that already counts as in flight.

        Return a function that ends the request for `in_flight` and for the rate limits.

        Raises:
            Refused: the caller or the replica is at a limit (HTTP 429). The request then no longer counts as in flight.
        """
        try:
            ended = limiter.acquire_now(scope, called_tool(message) if limiter.has_costs else "", message.id)
        except BaseException:
            self._release()
            raise
        return self._release if ended is None else self.limits.release_with(ended)

    def _call(
        self, request: Request, takes_stream: bool, record: RequestRecord, scope: Scope, receive: Receive, send: Send
    ) -> Call:
        """Check a request by the rules of its protocol, and make a call from it."""
        method = request.method
        record.called = called(request)
        for observe in self.limits.on_call:
            observe(scope, request.params)
        routing = routing_of(record)
        version = routing.version
        if version is not None:
            streams, seconds = takes_stream and self.streams, self.first_event_seconds
            if self.sessions is not None:
                call = self.sessions.call(request, version, record, scope, receive, send, streams, seconds)
            else:
                call = Call(request, version, False, scope, record, Reply(scope, receive, send, streams, seconds), OFF)
            if self.always_streams:
                _need_events(call)
            return call
        listens = method == _LISTEN  # the reply to this method is always an event stream
        if listens and request.size > _LONGEST_LISTEN:
            text = f"Subscription request too large: the limit is {_LONGEST_LISTEN} bytes."
            raise Refused(413, text, identity=request.id)
        if listens and not takes_stream:
            text = f"The reply to {_LISTEN} is an event stream: send the header Accept with text/event-stream."
            raise Refused(406, text, identity=request.id)
        version = check_envelope(request, routing)
        if method == "tools/call" and self.paths.plans.annotated:
            check_param_headers(request, scope, self.paths.plans.annotated)
        streams = takes_stream and (self.streams or listens)
        seconds = PING_SECONDS if listens else self.first_event_seconds  # a subscription is silent for hours
        return Call(request, version, True, scope, record, Reply(scope, receive, send, streams, seconds))

    async def _acknowledge(self, message: Message, headers: Headers, scope: Scope, send: Send) -> None:
        """Answer a notification, or a response without sessions, with status 202 and an empty body.

        In the stateless protocol the server ignores notifications, because a client cancels a call by closing its
        connection. In the handshake protocol, middleware gets the notifications.

        Raises:
            Refused: a response in the stateless protocol, because the server sends no requests in this protocol.
        """
        version = handshake_version(headers)
        if version is None:
            if isinstance(message, Response):
                raise unexpected_response()
            check_served(headers)
        if isinstance(message, Notification):
            record_of(scope).called = (message.method[:LONGEST], "")
        await send_response(scope, send, 202, (), b"")
        if isinstance(message, Notification) and version is not None:
            if self.sessions is not None:
                await self.sessions.receive_notification(message, headers, scope)
            await self.paths.fallback.observe(message, version, scope)

    async def _without_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a GET or a DELETE, which only sessions use."""
        try:
            await self.limits.heads.check(scope, receive)
            assert self.sessions is not None  # noqa: S101  # without sessions, the check has refused these methods
            await self.sessions.answer_without_body(scope, receive, send)
        except Refused as refused:
            await send_refusal(scope, send, refused)


async def _stop(call: Call | None) -> None:
    if call is not None:
        await call.reply.stop(call.request.id)


async def _release(call: Call | None) -> None:
    if call is not None:
        await call.reply.release()


def _need_events(call: Call) -> None:
    """Make the reply an event stream, because of JSON_RESPONSE=false.

    Raises:
        Refused: HTTP 406: the client accepts no event stream.
    """
    if not call.reply.may_stream:
        text = "The reply is an event stream: send the header Accept with application/json and text/event-stream."
        raise Refused(406, text, identity=call.request.id)
    call.reply.as_events = True
