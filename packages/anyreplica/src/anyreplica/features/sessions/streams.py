"""The event streams of sessions (`GET /mcp`), and what a session keeps between its requests.

A stream is for messages that belong to no call. A session keeps its log level, its subscriptions and its stream.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp.server.subscriptions import ResourceUpdated, ServerEvent, SubscriptionBus
from mcp.shared.subscriptions import event_to_notification

from anyreplica.features.sessions.answers import Answers
from anyreplica.features.sessions.record_store import (
    LEVEL,
    MOST_RESOURCES,
    MOST_URI_BYTES,
    RESOURCE,
    STREAM,
    record_store,
)
from anyreplica.features.sessions.session import Session
from anyreplica.http.limits import Shares
from anyreplica.http.responses import PING_SECONDS, Refused, encode
from anyreplica.shared.notifier import Notifier

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)


class RecordRefused(Exception):
    """A limit leaves no room for a record. The text says which limit, and what to do.

    Args:
        may_retry: whether the same request may succeed later, because others give back what they use.
    """

    def __init__(self, text: str, *, may_retry: bool) -> None:
        super().__init__(text)
        self.may_retry = may_retry


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The record of a session."""

    level: str = ""
    """Minimum level of log messages. Empty: the client has set none."""
    stream: str = ""
    """Random text that identifies the newest event stream of the session."""
    resources: frozenset[str] = frozenset()
    """URIs of the resources that the session is subscribed to."""

    @classmethod
    def of(cls, fields: dict[str, str]) -> "SessionRecord":
        """Return the record with these fields."""
        uris = (name.removeprefix(RESOURCE) for name in fields if name.startswith(RESOURCE))
        return cls(fields.get(LEVEL, ""), fields.get(STREAM, ""), frozenset(uris))


class SessionRecords:
    """The records of all sessions, and the wake-ups that tell an event stream of a change.

    Each method raises OSError if the store cannot be reached. The `caller` of a method is the one whose share of the
    limits a new record uses.

    Args:
        most: maximum number of bytes of all records.
    """

    def __init__(self, redis: "Redis | None", prefix: str, notifier: Notifier, most: int) -> None:
        self._store = record_store(redis, prefix, most)
        self._notifier = notifier
        end = "unsubscribe from resources, or end sessions that you no longer need (HTTP DELETE)"
        self._limits = {
            "session": f"Too many subscriptions: a session has at most {MOST_RESOURCES}, with at most {MOST_URI_BYTES} "
            "bytes of URIs; unsubscribe from some resources.",
            "caller": "The server keeps too much for your sessions: the limit of one caller is "
            f"{Shares(most).share} bytes (a quarter of RESUME_BYTES); {end}.",
            "server": f"The server keeps too much for all sessions: the limit is {most} bytes (half of RESUME_BYTES); "
            f"retry later, {end}.",
        }

    async def read(self, session: Session) -> SessionRecord:
        """Return the record of a session."""
        return SessionRecord.of(await self._store.read(session))

    async def set_level(self, session: Session, caller: str, level: str) -> None:
        """Set the minimum level of log messages. Raise `RecordRefused` beyond a limit."""
        await self._write(session, caller, LEVEL, level)

    async def set_stream(self, session: Session, caller: str, stream: str) -> None:
        """Make an event stream the newest one of its session, on all replicas. Raise `RecordRefused` beyond a limit."""
        await self._write(session, caller, STREAM, stream)
        await self.changed(session)

    async def end_stream(self, session: Session, stream: str) -> None:
        """Note that an event stream has ended. A session without subscriptions and level then keeps nothing."""
        await self._store.remove(session, STREAM, stream)

    async def subscribe(self, session: Session, caller: str, uri: str) -> None:
        """Subscribe to a resource. Raise `RecordRefused` beyond a limit."""
        await self._write(session, caller, RESOURCE + uri, "")
        await self.changed(session)

    async def unsubscribe(self, session: Session, uri: str) -> None:
        """End a subscription."""
        await self._store.remove(session, RESOURCE + uri, "")
        await self.changed(session)

    async def drop(self, session: Session) -> None:
        """Remove the record of a session that has ended."""
        await self._store.drop(session)

    async def restore(self, session: Session, caller: str, record: SessionRecord) -> None:
        """Write a whole record, as far as the limits allow."""
        fields = {LEVEL: record.level, STREAM: record.stream} | {f"{RESOURCE}{uri}": "" for uri in record.resources}
        with contextlib.suppress(RecordRefused):
            for name, value in fields.items():
                if value or name.startswith(RESOURCE):
                    await self._write(session, caller, name, value)

    async def changed(self, session: Session) -> None:
        """Tell the event streams of a session, on all replicas, to look at their session again."""
        await self._notifier.wake_everywhere(name_of(session))

    async def _write(self, session: Session, caller: str, name: str, value: str) -> None:
        written = await self._store.write(session, caller, name, value)
        if written != "written":
            raise RecordRefused(self._limits[written], may_retry=written != "session")


def name_of(session: Session) -> str:
    """Return the name of the wake-ups of a session."""
    return f"session:{session.key}"


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
