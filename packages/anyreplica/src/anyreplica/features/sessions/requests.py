"""The requests of clients that have a session, and the calls that this replica takes over from another one."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyreplica.features.sessions.channel import SessionChannel, SessionStart
from anyreplica.features.sessions.event_log import AdoptedCall
from anyreplica.features.sessions.reply import SessionReply
from anyreplica.features.sessions.session import Session
from anyreplica.features.sessions.sessions import Sessions
from anyreplica.http.request_limits import RequestLimits
from anyreplica.http.request_record import RECORD, RPC_ERROR, Headers, RequestRecord, headers_of, new_record, record_of
from anyreplica.http.responses import (
    EVENT_STREAM_HEADERS,
    PING,
    PING_SECONDS,
    ClientGone,
    Refused,
    empty_event,
    encode,
    error_response,
    event,
    send_response,
)
from anyreplica.mcp.call import Call
from anyreplica.mcp.message import (
    Notification,
    Request,
    Response,
    called,
    handshake_version,
    is_too_long,
    memory_of,
    unexpected_response,
)
from anyreplica.mcp.reply import Reply, disconnected

_ADOPTED = "sessions.adopted"
"""The note of a request about the call that this replica has taken over."""


class AdoptedCalls:
    """Continues with calls of lost replicas. Their events go to the log, where the client's resumed stream reads them.

    Args:
        limits: the counters of requests in flight and of their memory.
        answer: answers a call on the FastMCP path.
        logged: puts the access log around an app.
    """

    def __init__(
        self,
        sessions: Sessions,
        limits: RequestLimits,
        answer: Callable[[Call], Awaitable[None]],
        logged: Callable[[ASGIApp], ASGIApp],
    ) -> None:
        self._logged = logged
        self._sessions = sessions
        self._limits = limits
        self._answer = answer

    def start(self, scope: Scope, adopted: AdoptedCall) -> None:
        """Take over a call from another replica, in a new task.

        Args:
            scope: the scope of the GET request that resumes the call. The call then has the caller and the headers of
                this request.
        """
        asked = record_of(scope)
        record = new_record(asked.headers)
        record.caller, record.unknown = asked.caller, asked.unknown
        record.notes = {**(asked.notes or {}), _ADOPTED: adopted}
        task = asyncio.create_task(self._run({**scope, "method": "POST", RECORD: record}))
        self._sessions.adopted.add(task)
        task.add_done_callback(self._sessions.adopted.discard)

    async def _run(self, scope: Scope) -> None:
        await self._logged(self)(scope, _nothing_arrives, _send_nothing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Continue with the call in the scope."""
        record = record_of(scope)
        adopted: AdoptedCall = (record.notes or {}).pop(_ADOPTED)
        found = adopted.round
        body = encode(found.params)
        request = Request(adopted.identity, found.method, found.params, len(body), memory_of(body))
        record.called = called(request)
        for observe in self._limits.on_call:
            observe(scope, found.params)
        channel = SessionChannel(self._sessions, headers_of(scope)[b"mcp-session-id"], found.version)
        reply = SessionReply(scope, receive, send, True, PING_SECONDS, request, channel)
        reply.take_over(adopted)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        limits = self._limits
        limits.in_flight.acquire_beyond()  # the call waits for its client first
        limits.memory.acquire_beyond(request.memory)
        try:
            await self._answer(Call(request, found.version, False, scope, record_of(scope), reply, channel))
        except ClientGone:
            return
        except Refused as refused:
            record.failed = RPC_ERROR
            await reply.finish(refused.status, error_response(request.id, refused.code, refused.message))
        except asyncio.CancelledError:
            await reply.stop(request.id)
            raise
        finally:
            limits.in_flight.release()
            limits.memory.release(request.memory)


async def _nothing_arrives() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def _send_nothing(message: Message) -> None:
    """Drop a part of a reply: the client of the call has no connection to this call."""


_SESSION_ID = b"mcp-session-id"
_LAST_EVENT = b"last-event-id"
"""The header with which a client resumes the event stream of a call."""

_CANCELLED, _PROGRESS = "notifications/cancelled", "notifications/progress"
"""The notifications of a client that belong to a running call."""


_MOST_BYTES = 64 * 1024
"""Maximum size of all messages that wait for the result of an `initialize`, in bytes."""


class StartReply(Reply):
    """The reply to `initialize`. All messages wait for the result, because the head has the id of the new session."""

    _messages: tuple[bytes, ...] = ()

    async def event(self, message: bytes, *, last: bool = False, needed: bool = False) -> None:
        """Send the result; keep any other message until then. Beyond a limit, drop it."""
        if last:
            for each in (*self._messages, message):
                await super().event(each, last=each is message, needed=needed)
        elif self.may_stream and sum(map(len, self._messages)) + len(message) <= _MOST_BYTES:
            self._messages = (*self._messages, message)
            self.as_events = True


class SessionRequests:
    """Answers the requests of clients with sessions. This is the `HandshakeSessions` of the endpoint."""

    def __init__(self, sessions: Sessions, limits: RequestLimits, adopted: AdoptedCalls) -> None:
        self.keeps_state = sessions.records is not None
        self.on_end: list[Callable[[str], Awaitable[None]]] = []
        self._sessions = sessions
        self._limits = limits
        self._adopted = adopted

    def call(
        self,
        request: Request,
        version: str,
        record: RequestRecord,
        scope: Scope,
        receive: Receive,
        send: Send,
        may_stream: bool,
        first_event_seconds: float,
    ) -> Call:
        """Return the call of a request. With a session id, the call can ask its client."""
        sealed = record.headers.get(_SESSION_ID)
        if sealed is None or request.method == "initialize":
            if request.method == "initialize":
                reply: Reply = StartReply(scope, receive, send, may_stream, 0)
            else:
                reply = Reply(scope, receive, send, may_stream, first_event_seconds)
            return Call(request, version, False, scope, record, reply, SessionStart(self._sessions))
        channel = SessionChannel(self._sessions, sealed, version)
        kept = SessionReply(scope, receive, send, may_stream, first_event_seconds, request, channel)
        return Call(request, version, False, scope, record, kept, channel)

    async def receive_notification(self, notification: Notification, headers: Headers, scope: Scope) -> None:
        """Cancel a call of a session, or report progress to it, on the replica that runs it.

        Ignore all other notifications, those with an invalid session id, and those with a name that is too long.
        """
        sealed = headers.get(_SESSION_ID)
        if sealed is None or notification.method not in (_CANCELLED, _PROGRESS):
            return
        params = notification.params or {}
        if is_too_long(params.get("progressToken")) or is_too_long(params.get("requestId")):
            return
        with suppress(Refused):
            session = self._sessions.open(scope, sealed)
            if notification.method == _PROGRESS:
                await self._sessions.progress.pass_on(session, params)
            else:
                await self._sessions.cancel(sealed, params.get("requestId"))

    async def receive_response(self, response: Response, headers: Headers, scope: Scope, send: Send) -> None:
        """Pass the response of a client to the call that waits for it, on any replica, and answer with status 202.

        A response does not count for MAX_IN_FLIGHT or for its caller's rate limit, because the call that waits for it
        may have the last slot. A response that no call waits for counts for the rate limit.

        Raises:
            Refused: HTTP 400: the response uses the stateless protocol, in which a server sends no requests; or no call
                of this session waits for the response; or the session id is missing. HTTP 404: the session is unknown,
                has ended, or belongs to another caller. HTTP 429: too many refused responses. HTTP 503: too many
                responses arrive, too many requests use memory, or Redis cannot be reached.
        """
        if handshake_version(headers) is None:
            raise unexpected_response()
        record_of(scope).called = ("response", "")
        limits = self._limits
        limits.responses.acquire(None)
        try:
            limits.memory.acquire(response.memory)
            try:
                session = self._sessions.open(scope, _session_id(headers))
                await self._sessions.requests.answer(session, response.answered, response.answer)
            finally:
                limits.memory.release(response.memory)
        except Refused:
            release = None if limits.limiter is None else await limits.limiter.acquire(scope, "", None)
            if release is not None:
                release()
            raise
        finally:
            limits.responses.release()
        await send_response(scope, send, 202, (), b"")

    async def answer_without_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """End a session on all replicas (HTTP DELETE), or open its event stream (GET)."""
        headers, opens = headers_of(scope), scope["method"] == "GET"
        if opens:  # a resumed stream belongs to a call that counts as running already
            release = await self._limits.listen(scope, concurrent=_LAST_EVENT not in headers)
        else:  # a client may end its session while all the calls that it may run at the same time still run
            release = await self._limits.acquire(self._limits.in_flight, scope, "", None, 0, concurrent=False)
        try:
            session = await self._sessions.open_live(scope, _session_id(headers))
            if opens:
                await self._stream(session, scope, receive, send)
            else:
                for function in self.on_end:
                    await function(session.key)
                await self._sessions.end(session, self._sessions.caller(scope))
                await send_response(scope, send, 204, (), b"")
        finally:
            release()

    async def _stream(self, session: Session, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the event stream of a session, or resume the event stream of a call (Last-Event-ID)."""
        assert self._sessions.streams is not None  # noqa: S101  # without streams, the check has refused GET
        record_of(scope).called = ("stream", "")
        text = "The server cannot open an event stream now; retry later."
        with self._sessions.outage.required(lambda _: Refused.retry_later(text)):
            resumed = headers_of(scope).get(_LAST_EVENT)
            if resumed is not None and self._sessions.events is not None:
                go_on = partial(self._adopted.start, scope)
                caller = self._sessions.caller(scope)
                events = self._sessions.events.resume(session, resumed.decode("latin-1"), caller, go_on)
            else:
                events = self._sessions.streams.messages(session, self._sessions.caller(scope))
            await send_stream(events, receive, send)


def _session_id(headers: Headers) -> bytes:
    sealed = headers.get(_SESSION_ID)
    if sealed is None:
        raise Refused(400, "The header Mcp-Session-Id is missing; send the session id from the reply to initialize.")
    return sealed


async def send_stream(messages: AsyncGenerator[tuple[str, bytes]], receive: Receive, send: Send) -> None:
    """Send the messages, each with its event id, as events until they end or the client closes the connection.

    An empty message becomes an empty event if it has an id, and otherwise a comment. Both keep the connection open. The
    first message is awaited before the head of the reply, so an exception of the messages' start leaves the reply open.
    """
    first = await anext(messages)
    await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM_HEADERS})

    async def write(identity: str, message: bytes) -> None:
        nothing = empty_event(identity) if identity else PING
        body = event(message, identity) if message else nothing
        await send({"type": "http.response.body", "body": body, "more_body": True})

    task = asyncio.current_task()
    assert task is not None  # noqa: S101
    # A task of its own for the messages would take 3 kB per stream.
    gone = asyncio.ensure_future(disconnected(receive))
    gone.add_done_callback(end := lambda _: task.cancel())
    try:
        async with aclosing(messages):
            await write(*first)
            async for identity, message in messages:
                await write(identity, message)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except asyncio.CancelledError:
        if not gone.done() or task.uncancel():  # not only the client has ended the stream
            raise
    finally:
        gone.remove_done_callback(end)
        gone.cancel()
