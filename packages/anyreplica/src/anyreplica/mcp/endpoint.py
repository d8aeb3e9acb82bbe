"""The endpoint of `/mcp`."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial

from starlette.types import Receive, Scope, Send

from anyreplica.http.access_log import CALLED, LONGEST
from anyreplica.http.event_stream import PING_SECONDS
from anyreplica.http.headers import Headers, deciding, headers_of
from anyreplica.http.in_flight import UNAVAILABLE
from anyreplica.http.intake import Intake
from anyreplica.http.refusal import ClientGone, Refused, send_refusal
from anyreplica.http.responses import send_response
from anyreplica.http.trace_context import untraced
from anyreplica.mcp import _shared_dependencies
from anyreplica.mcp.adoption import Adoption
from anyreplica.mcp.asking import NO_SESSION, OFF, STATELESS, Asking, CallSession
from anyreplica.mcp.call import Call
from anyreplica.mcp.message import Notification, Request, Response, called, called_tool, is_too_long, parse
from anyreplica.mcp.paths import CallPaths
from anyreplica.mcp.protocol_version import check_envelope, check_param_headers, check_served, handshake_version
from anyreplica.mcp.session_methods import SessionMethods
from anyreplica.mcp.session_stream import send_stream
from anyreplica.mcp.stateless import forget_sessions
from anyreplica.mcp.stopping import answer_cancelled, let_go
from anyreplica.mcp.taken_calls import TakenCalls
from anyreplica.process.meanwhile import meanwhile
from anyreplica.sessions.session import Session
from anyreplica.sessions.sessions import Sessions
from anyreplica.sessions.state import SharedState
from anyreplica.settings import Settings

logger = logging.getLogger(__name__)

_LISTEN = "subscriptions/listen"

_LAST_EVENT = b"last-event-id"
"""The header with which a client resumes the event stream of a call."""

_FOR_CALLS = ("notifications/cancelled", "notifications/progress")
"""The notifications of a client that belong to a running call."""

_NO_RESPONSE = "The body must be a single JSON-RPC 2.0 request or notification."

_LONGEST_LISTEN = 64 * 1024
"""Maximum size of a subscription request, in bytes. The request stays in memory while the subscription is open."""


class McpEndpoint:
    """The ASGI endpoint: it reads a request body once, checks the request by its protocol, and selects a path."""

    paths: CallPaths
    """The paths that answer requests. The attribute exists after the server has started."""

    def __init__(
        self,
        adoption: Adoption,
        settings: Settings,
        intake: Intake,
        sessions: Sessions | None = None,
        state: SharedState | None = None,
    ) -> None:
        mcp = self.mcp = adoption.mcp
        self.adoption = adoption
        self.sessions = sessions
        self.seconds = settings.call_timeout_seconds
        self.first_event_seconds = settings.first_event_seconds
        self.intake = intake
        self.taken = None if sessions is None else TakenCalls(sessions, intake, self._answer_fully)
        """The calls that this replica takes over; None without sessions."""
        self.streams = settings.json_response == "auto"
        """Whether a reply may become an event stream, if the client accepts one."""
        if sessions is not None and sessions.records is not None:
            SessionMethods(sessions.records).offer(mcp)
        else:
            forget_sessions(mcp)
        keeps_state = sessions is not None and sessions.records is not None
        adoption.store_state(state, whole=keeps_state)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open FastMCP's lifespan and plan the tools; the endpoint answers requests inside the `async with` block."""
        async with _shared_dependencies.lifespan(self.mcp) as state:
            self.paths = CallPaths(self.adoption, state, self.seconds, self.sessions)
            with untraced():
                await self.paths.plan()
            async with meanwhile(self.paths.keep_planning()):
                yield

    def _answer_fully(self, call: Call) -> Awaitable[None]:
        return self.paths.full.answer(call)

    def tool_paths(self) -> Mapping[str, str]:
        """Return the path of each tool. A path other than the plain fast path includes its reason or condition."""
        return self.paths.plans.paths

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer a request."""
        method = scope["method"]
        if method == "POST":
            return self._answer(scope, receive, send)
        return self._without_body(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = None
        try:
            headers = headers_of(scope)
            intake = self.intake
            takes_stream = intake.admission.known.get(deciding(scope, headers))
            if takes_stream is None:
                takes_stream = await intake.admission.check(scope, receive)
            # No variable refers to the body, because a body may be large.
            message = parse(await intake.body.read(receive, headers.get(b"content-length")))
            for observe in intake.on_message:
                observe(scope, message.params)
            if isinstance(message, Request):
                call = self._call(message, takes_stream, headers, scope, receive, send)
            elif isinstance(message, Response) and self.sessions is not None:
                await self._hand_over(message, headers, scope, send)
                return
            place = intake.in_flight
            leave = None
            listens = message.method == _LISTEN
            if listens or message.memory or intake.limiter is not None or place.count >= place.most:
                leave = await intake.count(scope, called_tool(message), message.id, message.memory, listens=listens)
            else:  # the same as `Intake.enter`, but faster, for the most frequent case
                place.count += 1
            try:
                await (self._acknowledge(message, headers, scope, send) if call is None else self.paths.answer(call))
            except asyncio.CancelledError:  # the replica stops, and SHUTDOWN_GRACE_SECONDS are over
                await answer_cancelled(call)
                raise
            finally:
                if leave is None:
                    place.count -= 1
                else:
                    leave()
        except Refused as refused:
            await send_refusal(scope, send, refused)
        except ClientGone:
            await let_go(call)

    def _call(
        self, request: Request, takes_stream: bool, headers: Headers, scope: Scope, receive: Receive, send: Send
    ) -> Call:
        """Check a request by the rules of its protocol, and make a call from it."""
        method = request.method
        scope[CALLED] = called(request)
        for observe in self.intake.on_call:
            observe(scope, request.params)
        version = handshake_version(headers)
        if version is not None:
            asking: Asking = OFF
            if self.sessions is not None:
                sealed = headers.get(b"mcp-session-id")
                asking = NO_SESSION if sealed is None or method == "initialize" else CallSession(self.sessions, sealed)
            streams = takes_stream and self.streams
            return Call(request, version, False, scope, receive, send, streams, asking, self.first_event_seconds)
        listens = method == _LISTEN  # the reply to this method is always an event stream
        if listens and request.size > _LONGEST_LISTEN:
            text = f"Subscription request too large: the limit is {_LONGEST_LISTEN} bytes."
            raise Refused(413, text, identity=request.id)
        if listens and not takes_stream:
            text = f"The reply to {_LISTEN} is an event stream: send the header Accept with text/event-stream."
            raise Refused(406, text, identity=request.id)
        version = check_envelope(request, headers)
        if method == "tools/call" and self.paths.plans.annotated:
            check_param_headers(request, scope, self.paths.plans.annotated)
        streams = takes_stream and (self.streams or listens)
        seconds = PING_SECONDS if listens else self.first_event_seconds  # a subscription is silent for hours
        return Call(request, version, True, scope, receive, send, streams, STATELESS, seconds)

    async def _acknowledge(
        self, message: Request | Notification | Response, headers: Headers, scope: Scope, send: Send
    ) -> None:
        """Answer a notification, or a response without sessions, with status 202 and an empty body.

        In the stateless protocol the server ignores notifications, because a client cancels a call by closing its
        connection. In the handshake protocol, middleware gets the notifications.

        Raises:
            Refused: a response in the stateless protocol, because the server sends no requests in this protocol.
        """
        version = handshake_version(headers)
        if version is None:
            if isinstance(message, Response):
                raise Refused(400, _NO_RESPONSE)
            check_served(headers)
        if isinstance(message, Notification):
            scope[CALLED] = (message.method[:LONGEST], "")
        await send_response(scope, send, 202, (), b"")
        if isinstance(message, Notification) and version is not None:
            sealed = headers.get(b"mcp-session-id")
            if sealed is not None and self.sessions is not None and message.method in _FOR_CALLS:
                await self._tell_call(message, sealed, scope)
            await self.paths.full.observe(message, version, scope)

    async def _tell_call(self, notification: Notification, sealed: bytes, scope: Scope) -> None:
        """Cancel a call of this session, or report progress to it, on the replica that runs it.

        With an invalid session id, or with a name that is too long, do nothing.
        """
        assert self.sessions is not None  # noqa: S101
        params = notification.params or {}
        if is_too_long(params.get("progressToken")) or is_too_long(params.get("requestId")):
            return
        with suppress(Refused):
            session = self.sessions.open(scope, sealed)
            if notification.method == "notifications/progress":
                await self.sessions.progress.pass_on(session, params)
            else:
                await self.sessions.cancel(sealed, params.get("requestId"))

    async def _hand_over(self, response: Response, headers: Headers, scope: Scope, send: Send) -> None:
        """Hand the client's response over to the call that waits for it, on any replica, and answer with status 202.

        A response does not count for MAX_IN_FLIGHT or for its caller's rate limit, because the call that waits for it
        may have the last place. A response that no call waits for counts for the rate limit.

        Raises:
            Refused: HTTP 400: the response uses the stateless protocol, in which a server sends no requests; or no call
                of this session waits for the response; or the session id is missing. HTTP 404: the session is unknown
                or has ended. HTTP 403: the session belongs to another caller. HTTP 429: too many refused responses.
                HTTP 503: too many responses arrive, too many requests use memory, or Redis cannot be reached.
        """
        assert self.sessions is not None  # noqa: S101
        if handshake_version(headers) is None:
            raise Refused(400, _NO_RESPONSE)
        scope[CALLED] = ("response", "")
        intake = self.intake
        intake.responses.enter(None)
        try:
            intake.memory.take(response.memory)
            try:
                session = self.sessions.open(scope, _session_id(headers))
                await self.sessions.requests.answer(session, response.answered, response.answer)
            finally:
                intake.memory.give(response.memory)
        except Refused:
            leave = None if intake.limiter is None else await intake.limiter.enter(scope, "", None)
            if leave is not None:
                leave()
            raise
        finally:
            intake.responses.leave()
        await send_response(scope, send, 202, (), b"")

    async def _without_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """End a session on all replicas (HTTP DELETE), or open its event stream (GET)."""
        try:
            await self.intake.admission.check(scope, receive)
            assert self.sessions is not None  # noqa: S101  # without sessions, the check has refused these methods
            headers, opens = headers_of(scope), scope["method"] == "GET"
            if opens:  # a resumed stream belongs to a call that counts as running already
                leave = await self.intake.listen(scope, concurrent=_LAST_EVENT not in headers)
            else:  # a client may end its session while all the calls that it may run at the same time still run
                leave = await self.intake.enter(self.intake.in_flight, scope, "", None, 0, concurrent=False)
            try:
                session = await self.sessions.open_live(scope, _session_id(headers))
                if opens:
                    await self._stream(session, scope, receive, send)
                else:
                    await self.sessions.end(session)
                    await send_response(scope, send, 204, (), b"")
            finally:
                leave()
        except Refused as refused:
            await send_refusal(scope, send, refused)

    async def _stream(self, session: Session, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the event stream of a session, or resume the event stream of a call (Last-Event-ID)."""
        assert self.sessions is not None  # noqa: S101
        assert self.sessions.streams is not None  # noqa: S101  # without streams, the check has refused GET
        scope[CALLED] = ("stream", "")
        try:
            resumed = headers_of(scope).get(_LAST_EVENT)
            if resumed is not None and self.sessions.events is not None:
                assert self.taken is not None  # noqa: S101
                go_on = partial(self.taken.start, scope)
                caller = self.sessions.caller(scope)
                events = self.sessions.events.resume(session, resumed.decode("latin-1"), caller, go_on)
            else:
                events = self.sessions.streams.messages(session)
            await send_stream(events, receive, send)
        except OSError as error:
            logger.warning("Redis can't be reached: the event stream of a session was refused: %s", error)
            text = "The server cannot open an event stream now; retry later."
            raise Refused(503, text, code=UNAVAILABLE, headers={"Retry-After": "1"}) from None


def _session_id(headers: Headers) -> bytes:
    sealed = headers.get(b"mcp-session-id")
    if sealed is None:
        raise Refused(400, "The header Mcp-Session-Id is missing; send the session id from the reply to initialize.")
    return sealed
