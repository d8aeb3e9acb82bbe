"""What a session keeps between its requests: its log level, its subscriptions and its event stream."""

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from anyreplica.shared.notifier import Notifier

if TYPE_CHECKING:
    from redis.asyncio import Redis


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
