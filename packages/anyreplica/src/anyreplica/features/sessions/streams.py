"""The event streams of sessions: `GET /mcp`, for messages that belong to no call."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator

from mcp.server.subscriptions import ResourceUpdated, ServerEvent, SubscriptionBus
from mcp.shared.subscriptions import event_to_notification

from anyreplica.features.sessions.answers import Answers
from anyreplica.features.sessions.records import RecordRefused, SessionRecord, SessionRecords, name_of
from anyreplica.features.sessions.session import Session
from anyreplica.http.refusal import Refused
from anyreplica.http.responses import PING_SECONDS, encode
from anyreplica.shared.notifier import Notifier

logger = logging.getLogger(__name__)

_MOST_BYTES = 64 * 1024
"""Maximum size of a message to a session, and of all messages that wait for a slow client in one stream, in bytes."""


class _Open:
    """An open stream."""

    __slots__ = ("_waiter", "caller", "events", "messages", "record", "stale")

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.events: dict[ServerEvent, None] = {}
        """The events that the client has not got yet. The same event twice is one message."""
        self.messages: list[bytes] = []
        """The messages that were sent only to this session and that the client has not got yet."""
        self.record = SessionRecord()
        self.stale = False
        """Whether the record in the store may have changed."""
        self._waiter: asyncio.Future[None] | None = None

    def hear(self, event: ServerEvent) -> None:
        """Note an event that the client wants."""
        if not isinstance(event, ResourceUpdated) or event.uri in self.record.resources:
            self.events[event] = None
            self.wake()

    def receive(self, message: str) -> None:
        """Note a message that was sent only to this session. Beyond a limit, drop it, because the client is slow."""
        found = message.encode()
        if sum(map(len, self.messages)) + len(found) <= _MOST_BYTES:
            self.messages.append(found)
            self.wake()

    def mark_stale(self) -> None:
        """Note that the record may have changed."""
        self.stale = True
        self.wake()

    def wake(self) -> None:
        """End the wait."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait for an event or a change, for at most `seconds`. An `asyncio.Event` would take 1 kB more per stream."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None


class SessionStreams:
    """The open streams of a replica.

    Any replica can serve the stream of a session. If a client opens a second stream, the first one ends, because each
    message must reach the client only once (MCP 2025-11-25, Transports, "Multiple Connections").
    """

    def __init__(self, records: SessionRecords, answers: Answers, notifier: Notifier, bus: SubscriptionBus) -> None:
        self._records = records
        self._answers = answers
        self._notifier = notifier
        self._bus = bus
        self._open: set[_Open] = set()
        self._closed = False

    @property
    def count(self) -> int:
        """Number of open streams."""
        return len(self._open)

    def close(self) -> None:
        """End all streams. The clients then open new ones, at other replicas."""
        self._closed = True
        for stream in self._open:
            stream.wake()

    async def messages(self, session: Session, caller: str) -> AsyncGenerator[tuple[str, bytes]]:
        """Yield the notifications for a session, without event ids. At the start and after each pause, yield an empty
        one.

        The iterator ends when the replica drains, the session ends, or the client opens another stream.

        Args:
            caller: the caller of the request, whose share of the limits counts.

        Raises:
            Refused: HTTP 503: the limits of what sessions keep leave no room for this one.
            OSError: the store cannot be reached.
        """
        stream, name = _Open(caller), secrets.token_hex(8)
        self._open.add(stream)
        unsubscribe = self._bus.subscribe(stream.hear)
        try:
            with (
                self._notifier.listening(name_of(session), stream.mark_stale),
                self._notifier.receiving(_name(session, name), stream.receive),
            ):
                try:
                    await self._records.set_stream(session, caller, name)
                except RecordRefused as refused:
                    raise Refused.retry_later(str(refused)) from None
                stream.record = await self._records.read(session)
                yield "", b""
                while not self._closed:
                    message = await self._next(stream)
                    if stream.stale and not await self._is_newest(session, stream, name):
                        return
                    yield "", message
        finally:
            unsubscribe()
            self._open.discard(stream)
            with contextlib.suppress(OSError):  # the record expires with its session
                await self._records.end_stream(session, name)

    async def send(self, session: Session, message: bytes) -> None:
        """Send a message to the newest stream of a session, on any replica. Without a stream, the message is lost."""
        if len(message) > _MOST_BYTES:
            logger.info("A notification of %d bytes is dropped: the limit is %d bytes", len(message), _MOST_BYTES)
            return
        with contextlib.suppress(OSError):
            if stream := (await self._records.read(session)).stream:
                await self._notifier.send(_name(session, stream), message.decode())

    async def _next(self, stream: _Open) -> bytes:
        """Wait for the next event and return its message; return an empty message after a pause or a change."""
        if not stream.events and not stream.messages and not stream.stale and not self._closed:
            await stream.wait(PING_SECONDS)
        if stream.messages:
            return stream.messages.pop(0)
        if not stream.events:
            return b""
        event = next(iter(stream.events))
        del stream.events[event]
        return _notification(event)

    async def _is_newest(self, session: Session, stream: _Open, name: str) -> bool:
        """Read the record of the session again. Return False if the stream must end.

        While the store cannot be reached, the stream goes on with what it knows. If the store has lost its data, the
        stream writes the record again.
        """
        stream.stale = False
        with contextlib.suppress(OSError):
            if await self._answers.has_ended(session.key):
                return False
            record = await self._records.read(session)
            if record == SessionRecord():  # Redis has lost its data
                await self._records.restore(session, stream.caller, stream.record)
                return True
            stream.record = record
            return record.stream == name
        return True


def _name(session: Session, stream: str) -> str:
    """Return the name under which a stream receives messages."""
    return f"messages:{session.key}:{stream}"


def _notification(event: ServerEvent) -> bytes:
    params = {"params": {"uri": event.uri}} if isinstance(event, ResourceUpdated) else {}
    return encode({"jsonrpc": "2.0", "method": event_to_notification(event, {}).method, **params})
