"""How a call asks its client: over the session of the call. A call without a session gets an error with the reason."""

import contextlib
import logging
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from mcp.server.connection import Connection
from mcp.shared.dispatcher import CallOptions, Outbound
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, LoggingLevel

from anyreplica.components.deadline import PAUSES
from anyreplica.http.headers import headers_of
from anyreplica.http.refusal import Refused
from anyreplica.mcp.client_watch import ClientWatch
from anyreplica.sessions.call_events import CallEvents
from anyreplica.sessions.errors import ClientRequestError
from anyreplica.sessions.open_round import OpenRound, Question
from anyreplica.sessions.progress import with_progress
from anyreplica.sessions.session import Session
from anyreplica.sessions.sessions import Sessions
from anyreplica.sessions.waiting_calls import WaitingCall
from anyreplica.shared.lost_redis import persistently

if TYPE_CHECKING:
    from anyreplica.mcp.call import Call


logger = logging.getLogger(__name__)

SESSION = "anyreplica.session"
"""Scope key for the opened session of a request."""

_BEGIN_SECONDS = 1.5
"""Time for which a call that does not wait for its client tries to begin its events, in seconds. It is short, because
the client waits for the reply."""

_LEVELS: tuple[str, ...] = get_args(LoggingLevel)
"""Levels of log messages, from the least to the most severe (RFC 5424)."""


class CannotAsk:
    """A call that cannot ask its client. `reason` is the text of the error that a request gets."""

    __slots__ = ("reason",)

    can_ask = False
    is_open = True  # there is nothing to open

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def open(self, call: "Call") -> None:
        """Open nothing."""

    def outside(self) -> AbstractAsyncContextManager[None]:
        """Return a context that does nothing: a call without a session does not wait for the Redis of sessions."""
        return nullcontext()

    async def begin_events(self, call: "Call") -> CallEvents | None:  # noqa: ARG002
        """Return None: the call cannot be resumed."""
        return None

    def watching(self, call: "Call", watch: ClientWatch) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context that does nothing: without a session, there is no news but the end of the connection."""
        return nullcontext()

    async def wants(self, level: str, default: str) -> bool:  # noqa: ARG002
        """Return True: without a session, the client gets all log messages that FastMCP sends."""
        return True

    def connection(self, call: "Call", outbound: Outbound) -> Connection:
        """Return the SDK's connection of a call without a session. The client's capabilities are unknown."""
        return Connection.from_envelope(call.version, None, None, outbound=outbound)

    async def wait_in_round(self, call: "Call", found: OpenRound) -> None:
        """Do nothing: no other replica can take over the call."""

    async def leave_round(self, call: "Call") -> None:
        """Do nothing."""

    async def forget_round(self) -> None:
        """Do nothing."""

    async def ask(
        self,
        call: "Call",  # noqa: ARG002
        question: Question,
        opts: CallOptions,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Raise `ClientRequestError` with the reason."""
        text = f"The server cannot send {question.method} to the client: {self.reason}"
        raise ClientRequestError(INVALID_REQUEST, text)


STATELESS = CannotAsk("protocol version 2026-07-28 does not allow it; the component can return an InputRequiredResult.")
OFF = CannotAsk("HANDSHAKE_SESSIONS is off; the operator can set HANDSHAKE_SESSIONS=ask.")
NO_STREAM = CannotAsk("the client accepts no event stream; send the header Accept with text/event-stream.")
NO_SESSION = CannotAsk("the call has no session; send initialize first, and its Mcp-Session-Id with each call.")


class CallSession:
    """The session of one call, from its session id.

    Args:
        sealed: the session id, as the client sent it.
    """

    can_ask = True
    is_open = False
    # Most calls never open their session. So they do not pay for these attributes.
    _session: Session | None = None
    _waiting: WaitingCall | None = None
    _stack: contextlib.ExitStack | None = None
    _watch: ClientWatch | None = None
    _of_round: frozenset[str] = frozenset()
    _sent: frozenset[str] = frozenset()

    def __init__(self, sessions: Sessions, sealed: bytes) -> None:
        self._sessions = sessions
        self._sealed = sealed

    async def open(self, call: "Call") -> None:
        """Open the session, so that the call can ask its client.

        The time in which the call waits for its client does not count for the deadline of the call.

        Raises:
            Refused: HTTP 404 or 403, see `Sessions.open_live`.
        """
        async with self.outside():
            session = await self._sessions.open_live(call.scope, self._sealed)
        self._session = call.scope[SESSION] = session
        self.is_open = True
        if b"mcp-protocol-version" not in headers_of(call.scope):
            call.version = session.version
        PAUSES.set(self._waiting_call(call).pauses)

    def outside(self) -> AbstractAsyncContextManager[None]:
        """Do not count the call as one in flight inside the `async with` block, because it waits for Redis."""
        return nullcontext() if self._waits else self._sessions.in_flight.outside()

    @property
    def _waits(self) -> bool:
        """Whether the call waits for its client. Such a call does not count as one in flight."""
        return self._waiting is not None and self._waiting.pauses.is_open

    def connection(self, call: "Call", outbound: Outbound) -> Connection:
        """Return the SDK's connection, which sends requests to `outbound`.

        The connection has the client's capabilities only if `open` has opened the session.
        """
        session = self._session
        if session is None:
            return Connection.from_envelope(call.version, None, None, outbound=outbound)
        key = session.key if self._sessions.streams is not None else None  # without it, FastMCP keeps no state
        connection = Connection(outbound, protocol_version=call.version, session_id=key, client_params=session.client)
        connection.initialized.set()
        return connection

    async def begin_events(self, call: "Call") -> CallEvents | None:
        """Begin the events of the call, if the client can resume them. None: it cannot."""
        if self._session is None or self._sessions.events is None:
            return None
        caller = self._sessions.caller(call.scope)
        begin = partial(self._sessions.events.begin, self._session, call.request.id, caller)
        try:
            if self._waits:
                events = await persistently(begin)
            elif self._sessions.events.is_healthy:
                async with self.outside():
                    events = await persistently(begin, _BEGIN_SECONDS)
            else:  # an outage delays no call
                events = await begin()
            if events is not None and self._stack is not None and self._watch is not None:
                self._stack.enter_context(events.taken_over(self._watch.move_on))
            return events
        except OSError as error:
            logger.warning("Redis can't be reached: a call cannot be resumed: %s", error)
            return None

    @contextlib.contextmanager
    def watching(self, call: "Call", watch: ClientWatch) -> Iterator[None]:
        """Give the watch all news about the client inside the `with` block.

        The client can cancel the call. It moves on when this replica drains, and when it has resumed the call.
        """
        self._watch = watch
        with contextlib.ExitStack() as self._stack:
            self._stack.enter_context(self._sessions.cancelling(self._sealed, call.request.id, watch.cancel))
            self._sessions.leaving.add(watch.drain)
            self._stack.callback(self._sessions.leaving.discard, watch.drain)
            if self._waiting is not None:
                self._waiting.begin()
            self._stack.callback(self._end_waiting)
            yield

    def _waiting_call(self, call: "Call") -> WaitingCall:
        """Return the state of this call as one that waits for its client."""
        if self._waiting is None:
            self._waiting = self._sessions.waiting_call(call.scope, call.request.params, call.request.memory)
        return self._waiting

    def _end_waiting(self) -> None:
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

    async def wait_in_round(self, call: "Call", found: OpenRound) -> None:
        """Note that the call waits for its client in a round of a multi-round component.

        If the client can resume the call, another replica can take it over from now on.
        """
        self._sent = frozenset() if call.taken is None else call.taken.sent
        if not call.may_stream or self._sessions.events is None:
            return
        await call.open_stream()
        if call.events is not None and await self._can_be_taken_over(call.events, found):
            self._of_round = frozenset(each.identity for each in found.questions.values())
            if self._sessions.has_left and self._watch is not None:
                self._watch.drain()

    async def _can_be_taken_over(self, events: CallEvents, found: OpenRound) -> bool:
        async with self.outside():
            return await events.wait_in_round(found)

    async def leave_round(self, call: "Call") -> None:
        """Note that the call begins its next round.

        Raises:
            ClientRequestError: another replica has taken over the call, or Redis cannot tell whether one has.
        """
        try:
            if call.events is not None:
                async with self.outside():
                    goes_on = await call.events.leave_round()
                if not goes_on:
                    raise ClientRequestError(INTERNAL_ERROR, "Another replica goes on with this call.")
            await self.forget_round()
        except OSError as error:
            logger.warning("Redis can't be reached: a call did not go on: %s", error)
            text = "The call cannot go on now, because the server's Redis cannot be reached; send the call again."
            raise ClientRequestError(INTERNAL_ERROR, text) from None

    async def forget_round(self) -> None:
        """Delete the questions of a round that is over, and their answers. No other replica needs them."""
        of_round, self._of_round = self._of_round, frozenset()
        if of_round and self._session is not None:
            await self._sessions.requests.answers.forget(of_round, self._session.key)

    async def ask(self, call: "Call", question: Question, opts: CallOptions) -> dict[str, Any]:
        """Send a request to the client on the event stream of the call, and return the result of the answer.

        Raises:
            ClientRequestError: the client accepts no event stream, or see `ClientRequests.send`.
        """
        if not call.may_stream:
            return await NO_STREAM.ask(call, question, opts)
        sessions, identity = self._sessions, question.identity
        try:
            session = self._session or await sessions.open_live(call.scope, self._sealed)
        except Refused as refused:
            raise ClientRequestError(refused.code, refused.message) from None
        limit, on_progress = opts.get("timeout", sessions.requests.seconds), opts.get("on_progress")
        of_round, is_sent = identity in self._of_round, identity in self._sent
        write = partial(call.event, needed=True)
        waiting = self._waiting_call(call)
        send = partial(sessions.requests.send, session, write, waiting, of_round=of_round, is_sent=is_sent)
        if on_progress is None:
            return await send(question, limit)
        async with sessions.progress.reported(session, identity, on_progress):
            return await send(with_progress(question), limit)


Asking = CannotAsk | CallSession
"""How a call asks its client."""
