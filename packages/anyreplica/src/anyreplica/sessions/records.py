"""What a session keeps between its requests: its log level, its subscriptions and its event stream."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anyreplica.sessions.session import Session
from anyreplica.shared.lost_redis import raising_os_errors
from anyreplica.shared.wakeups import Wakeups

if TYPE_CHECKING:
    from redis.asyncio import Redis

MOST_RESOURCES = 1000
"""Maximum number of resources that a session can subscribe to."""

_LEVEL, _STREAM, _RESOURCE = "level", "stream", "resource:"


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
        uris = (name.removeprefix(_RESOURCE) for name in fields if name.startswith(_RESOURCE))
        return cls(fields.get(_LEVEL, ""), fields.get(_STREAM, ""), frozenset(uris))


class _Store(Protocol):
    """The fields of the records, by session. Each method raises OSError if the store cannot be reached."""

    async def read(self, session: Session) -> dict[str, str]:
        """Return all fields of a session."""

    async def write(self, session: Session, name: str, value: str | None) -> bool:
        """Write a field, or remove it if the value is None. Return False if the session has too many fields."""


@dataclass
class _LocalStore:
    """The store of a single replica, in its memory."""

    _sessions: dict[str, dict[str, str]] = field(default_factory=dict)
    _most: int = 10_000

    async def read(self, session: Session) -> dict[str, str]:
        return self._sessions.get(session.key, {})

    async def write(self, session: Session, name: str, value: str | None) -> bool:
        fields = self._sessions.setdefault(session.key, {})
        if value is None:
            fields.pop(name, None)
            return True
        if name not in fields and len(fields.keys() - {_LEVEL, _STREAM}) >= MOST_RESOURCES:
            return False
        fields[name] = value
        if len(self._sessions) > self._most:
            del self._sessions[next(iter(self._sessions))]
        return True


class _RedisStore:
    """The store that replicas share, in Redis: one hash per session, which expires with the session."""

    def __init__(self, redis: "Redis", prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._write = redis.register_script(_WRITE)

    async def read(self, session: Session) -> dict[str, str]:
        with raising_os_errors():
            fields: Any = await self._redis.hgetall(self._key(session))
        return {name.decode(): value.decode() for name, value in fields.items()}

    async def write(self, session: Session, name: str, value: str | None) -> bool:
        with raising_os_errors():
            if value is None:
                await self._redis.hdel(self._key(session), name)
                return True
            seconds = max(1, int(session.expires - time.time()))
            return bool(await self._write(keys=[self._key(session)], args=[name, value, seconds, MOST_RESOURCES]))

    def _key(self, session: Session) -> str:
        return f"{self._prefix}:session:{session.key}"


_WRITE = """
local others = redis.call('HEXISTS', KEYS[1], 'level') + redis.call('HEXISTS', KEYS[1], 'stream')
local full = redis.call('HLEN', KEYS[1]) - others >= tonumber(ARGV[4])
if full and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""
"""A script that writes a field, unless the session has too many fields."""


class SessionRecords:
    """The records of all sessions, and the wake-ups that tell an event stream of a change.

    Each method raises OSError if the store cannot be reached.
    """

    def __init__(self, redis: "Redis | None", prefix: str, wakeups: Wakeups) -> None:
        self._store: _Store = _LocalStore() if redis is None else _RedisStore(redis, prefix)
        self._wakeups = wakeups

    async def read(self, session: Session) -> SessionRecord:
        """Return the record of a session."""
        return SessionRecord.of(await self._store.read(session))

    async def set_level(self, session: Session, level: str) -> None:
        """Set the minimum level of log messages."""
        await self._store.write(session, _LEVEL, level)

    async def set_stream(self, session: Session, stream: str) -> None:
        """Make an event stream the newest one of its session, on all replicas."""
        await self._store.write(session, _STREAM, stream)
        await self.changed(session)

    async def subscribe(self, session: Session, uri: str) -> bool:
        """Subscribe to a resource. Return False if the session has too many subscriptions."""
        written = await self._store.write(session, _RESOURCE + uri, "")
        await self.changed(session)
        return written

    async def unsubscribe(self, session: Session, uri: str) -> None:
        """End a subscription."""
        await self._store.write(session, _RESOURCE + uri, None)
        await self.changed(session)

    async def restore(self, session: Session, record: SessionRecord) -> None:
        """Write a whole record."""
        fields = {_LEVEL: record.level, _STREAM: record.stream} | {f"{_RESOURCE}{uri}": "" for uri in record.resources}
        for name, value in fields.items():
            if value or name.startswith(_RESOURCE):
                await self._store.write(session, name, value)

    async def changed(self, session: Session) -> None:
        """Tell the event streams of a session, on all replicas, to look at their session again."""
        await self._wakeups.wake_everywhere(name_of(session))


def name_of(session: Session) -> str:
    """Return the name of the wake-ups of a session."""
    return f"session:{session.key}"
