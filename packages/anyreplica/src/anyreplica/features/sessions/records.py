"""What a session keeps between its requests: its log level, its subscriptions and its event stream."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anyreplica.features.sessions.session import Session
from anyreplica.shared.lost_redis import translate_redis_errors
from anyreplica.shared.notifier import Notifier

if TYPE_CHECKING:
    from redis.asyncio import Redis

MOST_RESOURCES = 1000
"""Maximum number of resources that a session can subscribe to."""
MOST_URI_BYTES = 64 * 1024
"""Maximum number of bytes of all URIs of resources that a session is subscribed to."""

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
        """Write a field, or remove it if the value is None. Return False if the session has too many subscriptions."""


@dataclass
class _LocalStore:
    """The store of a single replica, in its memory."""

    _sessions: dict[str, dict[str, str]] = field(default_factory=dict)
    _bytes: int = 0
    """Number of bytes of the URIs of all sessions."""
    _most: int = 10_000
    _most_bytes: int = 64 * 1024 * 1024

    async def read(self, session: Session) -> dict[str, str]:
        return self._sessions.get(session.key, {})

    async def write(self, session: Session, name: str, value: str | None) -> bool:
        fields = self._sessions.setdefault(session.key, {})
        if value is None:
            if fields.pop(name, None) is not None:
                self._bytes -= _size({name})
            return True
        if name not in fields:
            size = _size({name})
            uris = fields.keys() - {_LEVEL, _STREAM}
            if size and (len(uris) >= MOST_RESOURCES or _size(uris) + size > MOST_URI_BYTES):
                return False
            self._bytes += size
        fields[name] = value
        while len(self._sessions) > self._most or self._bytes > self._most_bytes:
            self._bytes -= _size(self._sessions.pop(next(iter(self._sessions))))
        return True


def _size(names: Iterable[str]) -> int:
    """Return the number of bytes of the URIs in names of fields."""
    uris = (name.removeprefix(_RESOURCE) for name in names if name.startswith(_RESOURCE))
    return sum(len(uri.encode(errors="surrogatepass")) for uri in uris)


class _RedisStore:
    """The store that replicas share, in Redis: one hash per session, which expires with the session."""

    def __init__(self, redis: "Redis", prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._write = redis.register_script(_WRITE)

    async def read(self, session: Session) -> dict[str, str]:
        with translate_redis_errors():
            fields: Any = await self._redis.hgetall(self._key(session))
        return {name.decode(): value.decode() for name, value in fields.items()}

    async def write(self, session: Session, name: str, value: str | None) -> bool:
        with translate_redis_errors():
            if value is None:
                await self._redis.hdel(self._key(session), name)
                return True
            seconds = max(1, int(session.expires - time.time()))
            arguments: list[str | int] = [name, value, seconds, MOST_RESOURCES, MOST_URI_BYTES]
            return bool(await self._write(keys=[self._key(session)], args=arguments))

    def _key(self, session: Session) -> str:
        return f"{self._prefix}:session:{session.key}"


_WRITE = """
local uri = string.match(ARGV[1], '^resource:(.*)')
if uri and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  local count, bytes = 1, #uri
  for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
    local other = string.match(name, '^resource:(.*)')
    if other then count, bytes = count + 1, bytes + #other end
  end
  if count > tonumber(ARGV[4]) or bytes > tonumber(ARGV[5]) then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""
"""A script that writes a field, unless the session has too many subscriptions."""


class SessionRecords:
    """The records of all sessions, and the wake-ups that tell an event stream of a change.

    Each method raises OSError if the store cannot be reached.
    """

    def __init__(self, redis: "Redis | None", prefix: str, notifier: Notifier) -> None:
        self._store: _Store = _LocalStore() if redis is None else _RedisStore(redis, prefix)
        self._notifier = notifier

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
        await self._notifier.wake_everywhere(name_of(session))


def name_of(session: Session) -> str:
    """Return the name of the wake-ups of a session."""
    return f"session:{session.key}"
