"""Sends requests from a call to its client, over the session of the call."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, get_args

from mcp.server.connection import Connection
from mcp.shared.dispatcher import CallOptions, Outbound
from mcp_types import INTERNAL_ERROR, LoggingLevel
from starlette.types import Scope

from anyreplica.components.call_limits import PAUSES
from anyreplica.features.sessions.call_events import CallEvents, OpenRound, Question, new_identity
from anyreplica.features.sessions.client_requests import with_progress
from anyreplica.features.sessions.session import Session, WaitingCall
from anyreplica.features.sessions.sessions import Sessions
from anyreplica.http.request_record import headers_of, note, record_of
from anyreplica.http.responses import Refused, encode
from anyreplica.mcp.call import NO_STREAM, SESSION, Call, ClientRequestError, NoClientChannel, UnknownClient
from anyreplica.mcp.compat.dispatch import SessionState
from anyreplica.mcp.message import Request
from anyreplica.shared.lost_redis import retry_for

_BEGIN_SECONDS = 1.5
"""Time for which a call that does not wait for its client tries to begin its events, in seconds. It is short, because
the client waits for the reply."""

_LEVELS: tuple[str, ...] = get_args(LoggingLevel)
"""Levels of log messages, from the least to the most severe (RFC 5424)."""


NO_SESSION = "the call has no session; send initialize first, and its Mcp-Session-Id with each call."


class ClientNews(Enum):
    """What has happened."""

    GONE = "the client has closed the connection"
    CANCELLED = "the client has cancelled the call"
    MOVE_ON = "the client goes on over another connection"
    DRAIN = "this replica drains, so the client must go on over another connection"


class ClientWatch:
    """Watches the connection of a call, and takes news from other places.

    Args:
        gone: waits until the client closes the connection.

    Attributes:
        news: a future that is done when there are news.
        cancelled: whether the client has cancelled the call.
    """

    __slots__ = ("_gone", "_waiting", "cancelled", "news")

    def __init__(self, gone: Coroutine[Any, Any, None]) -> None:
        loop = asyncio.get_running_loop()
        self.cancelled = False
        self._waiting: list[ClientNews] = []
        self.news: asyncio.Future[None] = loop.create_future()
        self._gone = asyncio.Task(self._watch(gone), loop=loop)  # without the task factory, which is for components

    def next_news(self) -> ClientNews:
        """Return the oldest news, and wait for further news."""
        found = self._waiting.pop(0)
        self.news = asyncio.get_running_loop().create_future()
        if self._waiting:
            self.news.set_result(None)
        return found

    def cancel(self) -> None:
        """Note that the client has cancelled the call."""
        self.cancelled = True
        self._note(ClientNews.CANCELLED)

    def move_on(self) -> None:
        """Note that the client goes on over another connection."""
        self._note(ClientNews.MOVE_ON)

    def drain(self) -> None:
        """Note that the client must go on over another connection, because this replica drains."""
        self._note(ClientNews.DRAIN)

    def close(self) -> None:
        """Stop watching."""
        self._gone.cancel()

    async def _watch(self, gone: Coroutine[Any, Any, None]) -> None:
        await gone
        self._note(ClientNews.GONE)

    def _note(self, news: ClientNews) -> None:
        self._waiting.append(news)
        if not self.news.done():
            self.news.set_result(None)


class SessionStart(NoClientChannel):
    """The channel of a handshake-protocol call without a session. If the call is `initialize`, it starts one."""

    __slots__ = ("_sessions",)

    def __init__(self, sessions: Sessions) -> None:
        super().__init__(NO_SESSION)
        self._sessions = sessions

    def reply_headers(self, call: Call, result: Mapping[str, Any]) -> Sequence[tuple[bytes, bytes]]:
        """Start a session, and return the header with its id."""
        session = self._sessions.start(call.scope, result["protocolVersion"], call.request.params or {})
        return ((b"mcp-session-id", session.encode()),)


class SessionChannel:
    """The session of one call, from its session id.

    Args:
        sealed: the session id, as the client sent it.
        version: the protocol version of the call.
    """

    can_ask = True
    is_open = False
    # Most calls never open their session. So they do not pay for these attributes.
    _session: Session | None = None
    _waiting: WaitingCall | None = None
    _stack: contextlib.ExitStack | None = None
    _watch: ClientWatch | None = None
    _events: CallEvents | None = None
    _of_round: frozenset[str] = frozenset()
    _sent: frozenset[str] = frozenset()

    def __init__(self, sessions: Sessions, sealed: bytes, version: str) -> None:
        self._sessions = sessions
        self._sealed = sealed
        self.version = version

    async def open(self, call: Call) -> Call:
        """Open the session, so that the call can ask its client. Return the call to go on with, see `ClientChannel`.

        The time in which the call waits for its client does not count for the deadline of the call.

        Raises:
            Refused: HTTP 404, see `Sessions.open_live`.
        """
        async with self.outside():
            session = await self._sessions.open_live(call.scope, self._sealed)
        self._session = session
        note(record_of(call.scope), SESSION, session)
        self.is_open = True
        PAUSES.set(self._waiting_call(call.request, call.scope).pauses)
        if b"mcp-protocol-version" in headers_of(call.scope):
            return call
        self.version = session.version
        return replace(call, version=session.version)

    def outside(self) -> AbstractAsyncContextManager[None]:
        """Do not count the call as one in flight inside the `async with` block, because it waits for Redis."""
        return nullcontext() if self._waits else self._sessions.in_flight.outside()

    @property
    def keeps_events(self) -> bool:
        """Whether clients can resume calls."""
        return self._sessions.events is not None

    @property
    def _waits(self) -> bool:
        """Whether the call waits for its client. Such a call does not count as one in flight."""
        return self._waiting is not None and self._waiting.pauses.is_open

    def connection(self, call: Call, outbound: Outbound) -> Connection:
        """Return the SDK's connection, which sends requests to `outbound`.

        The connection has the client's capabilities only if `open` has opened the session.
        """
        session = self._session
        if session is None:
            return UnknownClient(call.version, outbound)
        key = self.session_key(call) or None  # without it, FastMCP keeps no state
        connection = Connection(outbound, protocol_version=call.version, session_id=key, client_params=session.client)
        connection.initialized.set()
        if key is not None:
            connection.state = SessionState()
        return connection

    def session_key(self, call: Call) -> str:
        """Return the key of the session; return an empty text if the session is not valid, or has no state."""
        if self._sessions.streams is None:
            return ""
        with contextlib.suppress(Refused):
            return (self._session or self._sessions.open(call.scope, self._sealed)).key
        return ""

    def reply_headers(
        self,
        call: Call,  # noqa: ARG002
        result: Mapping[str, Any],  # noqa: ARG002
    ) -> Sequence[tuple[bytes, bytes]]:
        """Return no headers, because the session exists already."""
        return ()

    async def begin_events(self, request: Request, scope: Scope) -> CallEvents | None:
        """Begin the events of the call, if the client can resume them. None: it cannot."""
        if self._session is None or self._sessions.events is None:
            return None
        caller = self._sessions.caller(scope)
        begin = partial(self._sessions.events.begin, self._session, request.id, caller)
        with self._sessions.outage.best_effort():
            if self._waits:
                events = await retry_for(begin)
            elif self._sessions.events.is_healthy:
                async with self.outside():
                    events = await retry_for(begin, _BEGIN_SECONDS)
            else:  # an outage delays no call
                events = await begin()
            self._events = events
            self._watch_readers()
            return events
        return None

    def _watch_readers(self) -> None:
        """Let the watch know when a client follows the events over another connection.

        A call may write its first event before or after the watch of its connection begins.
        """
        if self._events is not None and self._stack is not None and self._watch is not None:
            self._stack.enter_context(self._events.taken_over(self._watch.move_on))

    @contextlib.contextmanager
    def watching(self, request: Request, watch: ClientWatch) -> Iterator[None]:
        """Give the watch all news about the client inside the `with` block.

        The client can cancel the call. It moves on when this replica drains, and when it has resumed the call.
        """
        self._watch = watch
        with contextlib.ExitStack() as stack:
            self._stack = stack
            stack.callback(self._end_watching)
            stack.enter_context(self._sessions.cancelling(self._sealed, request.id, watch.cancel))
            self._sessions.leaving.add(watch.drain)
            stack.callback(self._sessions.leaving.discard, watch.drain)
            if self._waiting is not None:
                self._waiting.begin()
            self._watch_readers()
            yield

    def _waiting_call(self, request: Request, scope: Scope) -> WaitingCall:
        """Return the state of this call as one that waits for its client."""
        if self._waiting is None:
            self._waiting = self._sessions.waiting_call(scope, request.params, request.memory)
        return self._waiting

    def _end_watching(self) -> None:
        self._stack = None
        if self._waiting is not None:
            self._waiting.end()

    async def wants(self, level: str, default: str) -> bool:
        """Return whether the session gets log messages of this level.

        Args:
            default: the minimum level if the client has set none, and while Redis cannot be reached. Empty: no minimum.
        """
        session, records = self._session, self._sessions.records
        if session is None or records is None:
            return True
        wanted = default
        with contextlib.suppress(OSError):
            wanted = (await records.read(session)).level or default
        return wanted not in _LEVELS or level not in _LEVELS or _LEVELS.index(level) >= _LEVELS.index(wanted)

    async def notify_session(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification that belongs to no call, on the event stream of the session, if the client has one."""
        if self._session is not None and self._sessions.streams is not None:
            message = {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": dict(params)})
            await self._sessions.streams.send(self._session, encode(message))

    async def wait_in_round(self, events: CallEvents | None, found: OpenRound, sent: frozenset[str]) -> None:
        """Note that the call waits for its client in a round of a multi-round component.

        If the client can resume the call, another replica can take it over from now on.

        Args:
            events: the events of the call. None: the client cannot resume it.
            sent: the questions that another replica has already sent.
        """
        self._sent = sent
        if events is None:
            return
        async with self.outside():
            can_be_taken_over = await events.wait_in_round(found)
        if can_be_taken_over:
            self._of_round = frozenset(each.identity for each in found.questions.values())
            if self._sessions.has_left and self._watch is not None:
                self._watch.drain()

    async def end_round(self, events: CallEvents | None) -> None:
        """Note that the call begins its next round.

        Raises:
            ClientRequestError: another replica has taken over the call, or Redis cannot tell whether one has.
        """
        text = "The call cannot go on now, because the server's Redis cannot be reached; send the call again."
        with self._sessions.outage.required(lambda _: ClientRequestError(INTERNAL_ERROR, text)):
            if events is not None:
                async with self.outside():
                    goes_on = await events.end_round()
                if not goes_on:
                    raise ClientRequestError(INTERNAL_ERROR, "Another replica goes on with this call.")
            await self.forget_round()

    async def forget_round(self) -> None:
        """Delete the questions of a round that is over, and their answers. No other replica needs them."""
        of_round, self._of_round = self._of_round, frozenset()
        if of_round and self._session is not None:
            await self._sessions.requests.answers.forget(of_round, self._session.key)

    async def ask(self, call: Call, method: str, params: Mapping[str, Any] | None, opts: CallOptions) -> dict[str, Any]:
        """Send a request to the client on the event stream of the call, and return the result of the answer.

        Raises:
            ClientRequestError: the client accepts no event stream, or see `ClientRequests.send`.
        """
        reply = call.reply
        if not reply.may_stream:
            return await NO_STREAM.ask(call, method, params, opts)
        identity = str(opts.get("request_id") or new_identity())
        question = Question(identity, method, None if params is None else dict(params))
        sessions = self._sessions
        try:
            session = self._session or await sessions.open_live(call.scope, self._sealed)
        except Refused as refused:
            raise ClientRequestError(refused.code, refused.message) from None
        limit, on_progress = opts.get("timeout", sessions.requests.seconds), opts.get("on_progress")
        of_round, is_sent = identity in self._of_round, identity in self._sent
        write = partial(reply.event, needed=True)
        waiting = self._waiting_call(call.request, call.scope)
        send = partial(sessions.requests.send, session, write, waiting, of_round=of_round, is_sent=is_sent)
        if on_progress is None:
            return await send(question, limit)
        async with sessions.progress.reported(session, identity, on_progress):
            return await send(with_progress(question), limit)
