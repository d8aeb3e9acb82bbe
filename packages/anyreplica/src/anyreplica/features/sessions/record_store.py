"""The stores of the records of sessions. They limit the bytes of the records: by session, by caller, and altogether."""

import heapq
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from anyreplica.auth.caller import digest
from anyreplica.features.sessions.session import Session
from anyreplica.http.limits import Shares
from anyreplica.shared.expiring import Expiring
from anyreplica.shared.lost_redis import translate_redis_errors
from anyreplica.shared.script import RedisKey, Result, Script

if TYPE_CHECKING:
    from redis.asyncio import Redis

MOST_RESOURCES = 1000
"""Maximum number of resources that a session can subscribe to."""
MOST_URI_BYTES = 64 * 1024
"""Maximum number of bytes of all URIs of resources that a session is subscribed to."""
RECORD_BYTES = 768
"""Bytes that a record counts in addition to its URIs: its keys in Redis, and what counts it there."""
URI_BYTES = 128
"""Bytes that a subscription counts in addition to its URI."""
LEVEL, STREAM, RESOURCE = "level", "stream", "resource:"
"""Names of the fields of a record. A subscription has a field whose name begins with `RESOURCE`."""

WriteOutcome = Literal["written", "session", "caller", "server"]
"""The result of writing a field: `written`, or whose limit has no room for it."""


class RecordStore(Protocol):
    """The fields of the records, by session. Each method raises OSError if the store cannot be reached.

    A record counts for the caller that wrote its first field. If the records of all callers have reached their limit,
    the store drops records of the caller that has the most, for a caller that has less.
    """

    async def read(self, session: Session) -> dict[str, str]:
        """Return all fields of a session."""

    async def write(self, session: Session, caller: str, name: str, value: str) -> WriteOutcome:
        """Write a field, if there is room for it."""

    async def remove(self, session: Session, name: str, value: str) -> None:
        """Remove a field that has this value, and the record if it then has no field."""

    async def drop(self, session: Session) -> None:
        """Remove the record of a session."""


@dataclass(slots=True)
class _LocalRecord:
    session: str
    caller: str
    fields: dict[str, str] = field(default_factory=dict)
    size: int = 0


class LocalRecords:
    """The store of a single replica, in its memory.

    Args:
        most: maximum number of bytes of all records. One caller may have half of them.
    """

    def __init__(self, most: int) -> None:
        self.shares = Shares(most)
        self._records: Expiring[_LocalRecord] = Expiring(self._release)
        self._by_caller: dict[str, dict[str, None]] = {}
        """The sessions with a record, by caller. The oldest is the first."""
        self._largest: list[tuple[int, str]] = []
        """A heap with the bytes of each caller, as negative numbers. It also has outdated entries."""

    async def read(self, session: Session) -> dict[str, str]:
        record = self._records.get(session.key)
        return {} if record is None else dict(record.fields)

    async def write(self, session: Session, caller: str, name: str, value: str) -> WriteOutcome:
        self._records.expire()
        record = self._records.get(session.key)
        cost = 0 if record is not None else RECORD_BYTES
        fields = {} if record is None else record.fields
        owner = caller if record is None else record.caller
        if name.startswith(RESOURCE) and name not in fields:
            uris = [each for each in fields if each.startswith(RESOURCE)]
            size = _size([name])
            if len(uris) >= MOST_RESOURCES or _size(uris) + size > MOST_URI_BYTES:
                return "session"
            cost += size + URI_BYTES
        if cost > self.shares.share - self.shares.used_by(owner):
            return "caller"
        if not self._make_room(owner, cost):
            return "server"
        if record is None:
            record = _LocalRecord(session.key, caller)
            self._records.add(session.key, record, max(1.0, session.expires - time.time()))
            self._by_caller.setdefault(caller, {})[session.key] = None
        record.fields[name] = value
        self._change(record, cost)
        return "written"

    async def remove(self, session: Session, name: str, value: str) -> None:
        record = self._records.get(session.key)
        if record is None or record.fields.get(name) != value:
            return
        del record.fields[name]
        if not record.fields:
            self._records.remove(session.key)
        elif name.startswith(RESOURCE):
            self._change(record, -(_size([name]) + URI_BYTES))

    async def drop(self, session: Session) -> None:
        self._records.remove(session.key)

    def _make_room(self, caller: str, cost: int) -> bool:
        """Drop records of the callers that have the most. Return False if no other caller has more than this one."""
        wanted = self.shares.used_by(caller) + cost
        while self.shares.used + cost > self.shares.most:
            while self._largest and -self._largest[0][0] != self.shares.used_by(self._largest[0][1]):
                heapq.heappop(self._largest)
            if not self._largest or self._largest[0][1] == caller or -self._largest[0][0] <= wanted:
                return False
            self._records.remove(next(iter(self._by_caller[self._largest[0][1]])))
        return True

    def _change(self, record: _LocalRecord, change: int) -> None:
        if not change:
            return
        record.size += change
        self.shares.add(record.caller, change)
        heapq.heappush(self._largest, (-self.shares.used_by(record.caller), record.caller))
        if len(self._largest) > 2 * len(self._by_caller) + 100:  # most entries are outdated
            self._largest = [(-self.shares.used_by(caller), caller) for caller in self._by_caller]
            heapq.heapify(self._largest)

    def _release(self, record: _LocalRecord) -> None:
        sessions = self._by_caller[record.caller]
        del sessions[record.session]
        if not sessions:
            del self._by_caller[record.caller]
        self._change(record, -record.size)


def _size(names: Iterable[str]) -> int:
    """Return the number of bytes of the URIs in names of fields."""
    return sum(len(name.removeprefix(RESOURCE).encode(errors="surrogatepass")) for name in names)


class RedisRecords:
    """The store that replicas share, in Redis: one hash per session, which expires with the session.

    Four more kinds of keys count the bytes: those of each session of a caller, those of each caller, those of all, and
    the time at which each record expires.

    Args:
        most: maximum number of bytes of all records. One caller may have half of them.
    """

    def __init__(self, redis: "Redis", prefix: str, most: int) -> None:
        self._redis = redis
        self._prefix = prefix
        self._most = most

    async def read(self, session: Session) -> dict[str, str]:
        with translate_redis_errors():
            fields: Any = await self._redis.hgetall(self._record(session))
        return {name.decode(): value.decode() for name, value in fields.items() if name != b"caller"}

    async def write(self, session: Session, caller: str, name: str, value: str) -> WriteOutcome:
        script = _Write(
            *self._of(session),
            field=name,
            value=value,
            caller=digest(caller)[:32],
            most_uris=MOST_RESOURCES,
            most_uri_bytes=MOST_URI_BYTES,
            most_bytes=self._most,
            most_bytes_of_caller=Shares(self._most).share,
            record_bytes=RECORD_BYTES,
            uri_bytes=URI_BYTES,
        )
        written = await script.run(self._redis)
        return written.decode()  # type: ignore[return-value]

    async def remove(self, session: Session, name: str, value: str) -> None:
        await _Remove(*self._of(session), name, value, URI_BYTES).run(self._redis)

    async def drop(self, session: Session) -> None:
        await _Drop(*self._of(session)).run(self._redis)

    def _record(self, session: Session) -> str:
        return f"{self._prefix}:session:{session.key}"

    def _of(self, session: Session) -> tuple[str, str, str, str, str, str, int, int]:
        """Return the values of the fields of `_Counting`."""
        prefix, now = self._prefix, int(time.time())
        counts = f"{prefix}:session_callers", f"{prefix}:session_ends", f"{prefix}:session_bytes"
        return self._record(session), *counts, prefix, session.key, now, max(now + 1, int(session.expires))


class _Counting(Script[Result]):
    """The first part of each script: functions that count bytes, and the removal of expired records from the counts.

    A key of counts expires with the last record that it counts. If the counts of a caller's sessions have expired
    before this script has seen it, all records of the caller have expired, too.
    """

    record: RedisKey
    callers: RedisKey
    """The bytes of each caller."""
    ends: RedisKey
    """The time at which each record expires."""
    total: RedisKey
    """The bytes of all records."""
    prefix: str
    session: str
    now: int
    expires: int
    """Time at which the session expires."""

    lua = """
local function record_of(name) return prefix .. ':session:' .. name end
local function sizes_of(caller) return prefix .. ':session_sizes:' .. caller end
local function used_by(caller) return tonumber(redis.call('ZSCORE', callers, caller) or '0') end
local function keep(key)
  if redis.call('TTL', key) < expires - now then redis.call('EXPIRE', key, expires - now) end
end
local function add_to(caller, change)
  redis.call('INCRBY', total, change)
  if tonumber(redis.call('ZINCRBY', callers, change, caller)) <= 0 then redis.call('ZREM', callers, caller) end
end
local function add(name, caller, change)
  add_to(caller, change)
  redis.call('ZINCRBY', sizes_of(caller), change, name)
  for _, key in ipairs({callers, ends, total, sizes_of(caller)}) do keep(key) end
end
local function drop(name, caller)
  local size = redis.call('ZSCORE', sizes_of(caller), name)
  if size then
    redis.call('ZREM', sizes_of(caller), name)
    add_to(caller, -tonumber(size))
  end
  redis.call('ZREM', ends, name .. ' ' .. caller)
  local rest = used_by(caller)
  if rest > 0 and redis.call('EXISTS', sizes_of(caller)) == 0 then add_to(caller, -rest) end
end
for _, each in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 100)) do
  drop(string.match(each, '^(%S+) (%S+)$'))
end
local function uri_of(field) return string.match(field, '^resource:(.*)') end
"""


class _Write(_Counting[bytes]):
    """Writes a field, unless a limit leaves no room for it. Returns a `WriteOutcome`."""

    field: str
    value: str
    caller: str
    most_uris: int
    """Maximum number of subscriptions of the session."""
    most_uri_bytes: int
    """Maximum number of bytes of their URIs."""
    most_bytes: int
    """Maximum number of bytes of all records."""
    most_bytes_of_caller: int
    record_bytes: int
    """Bytes that a record counts in addition to its URIs."""
    uri_bytes: int
    """Bytes that a subscription counts in addition to its URI."""

    lua = """
local cost = 0
local owner = redis.call('HGET', record, 'caller')
if not owner then owner, cost = caller, record_bytes end
local uri = uri_of(field)
if uri and redis.call('HEXISTS', record, field) == 0 then
  local count, bytes = 1, #uri
  for _, name in ipairs(redis.call('HKEYS', record)) do
    local other = uri_of(name)
    if other then count, bytes = count + 1, bytes + #other end
  end
  if count > most_uris or bytes > most_uri_bytes then return 'session' end
  cost = cost + #uri + uri_bytes
end
if cost > 0 then
  local wanted = used_by(owner) + cost
  if wanted > most_bytes_of_caller then return 'caller' end
  while tonumber(redis.call('GET', total) or '0') + cost > most_bytes do
    local largest = redis.call('ZREVRANGE', callers, 0, 0)[1]
    if not largest or largest == owner or used_by(largest) <= wanted then return 'server' end
    local dropped = redis.call('ZREVRANGE', sizes_of(largest), 0, 0)[1]
    if dropped then redis.call('DEL', record_of(dropped)) end
    drop(dropped or '', largest)
  end
  redis.call('ZADD', ends, expires, session .. ' ' .. owner)
  add(session, owner, cost)
end
redis.call('HSET', record, 'caller', owner, field, value)
redis.call('EXPIRE', record, expires - now)
return 'written'
"""


class _Remove(_Counting[int]):
    """Removes a field if it has this value, and a record without fields."""

    field: str
    value: str
    uri_bytes: int
    """Bytes that a subscription counts in addition to its URI."""

    lua = """
local owner = redis.call('HGET', record, 'caller')
if redis.call('HGET', record, field) ~= value then return 0 end
redis.call('HDEL', record, field)
if owner and redis.call('HLEN', record) == 1 then
  redis.call('DEL', record)
  drop(session, owner)
elseif owner and uri_of(field) then
  add(session, owner, -#uri_of(field) - uri_bytes)
end
return 1
"""


class _Drop(_Counting[int]):
    """Removes a record."""

    lua = """
local owner = redis.call('HGET', record, 'caller')
if owner then drop(session, owner) end
return redis.call('DEL', record)
"""


def record_store(redis: "Redis | None", prefix: str, most: int) -> RecordStore:
    """Return the store: in Redis if there is one, otherwise in this process."""
    return LocalRecords(most) if redis is None else RedisRecords(redis, prefix, most)
