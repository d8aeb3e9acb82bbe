"""The values that tools keep for sessions, in this replica or in Redis, with limits by value, caller and store."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from anyreplica.http.limits import Shares
from anyreplica.shared.expiring import Expiring
from anyreplica.shared.script import RedisKey, Result, Script

if TYPE_CHECKING:
    from redis.asyncio import Redis

VALUE_BYTES = 512
"""Bytes that a value counts in addition to its text and its name: what Python or Redis needs for it."""
_VALUES = 8
"""One value may use the memory divided by this number."""


@dataclass(frozen=True)
class StateLimits:
    """The limits of the bytes of all values. `most` is SESSION_STATE_BYTES."""

    most: int

    @property
    def by_caller(self) -> int:
        return self.most // 2

    @property
    def by_value(self) -> int:
        return self.most // _VALUES

    def describe(self) -> str:
        """Return the limits, for errors."""
        return (
            f"the limits are {self.by_value} bytes for one value, {self.by_caller} bytes for all values of one caller, "
            f"and {self.most} bytes for all values (SESSION_STATE_BYTES)"
        )


class StateValues(Protocol):
    """A store of values. The values of a session are a group: they expire together, and count for one caller.

    Each method raises OSError if the store cannot be reached.
    """

    async def get(self, group: str, name: str, renewed: int | None = None) -> str | bytes | None:
        """Return a value, or None. `renewed` is a new lifetime of the group in seconds. None: it stays as it is."""

    async def put(self, group: str, name: str, text: bytes, caller: str, seconds: int) -> bool:
        """Store a value, and let its group expire in `seconds`. Return False if a limit leaves no room for the value.

        Args:
            caller: whose share the group uses, if it is new.
        """

    async def delete(self, group: str, name: str) -> None:
        """Remove a value."""

    async def drop(self, group: str) -> None:
        """Remove a group."""


def _cost(name: str, text: bytes) -> int:
    return len(name.encode(errors="surrogatepass")) + len(text) + VALUE_BYTES


@dataclass(slots=True)
class _Group:
    caller: str
    size: int = 0
    values: dict[str, bytes] = field(default_factory=dict)


class LocalState:
    """The values in the memory of this replica."""

    def __init__(self, limits: StateLimits) -> None:
        self._limits = limits
        self._shares = Shares(limits.most, limits.by_caller)
        self._groups: Expiring[_Group] = Expiring(self._release)

    @property
    def used(self) -> int:
        """Number of bytes of all values."""
        return self._shares.used

    @property
    def is_empty(self) -> bool:
        """Whether there is no value."""
        return not self._groups

    async def get(self, group: str, name: str, renewed: int | None = None) -> bytes | None:
        """Return a value, see `StateValues.get`."""
        found = self._groups.get(group)
        if found is None:
            return None
        if renewed is not None:
            self._groups.keep(group, renewed)
        return found.values.get(name)

    async def put(self, group: str, name: str, text: bytes, caller: str, seconds: int) -> bool:
        """Store a value, see `StateValues.put`."""
        self._groups.expire()
        found = self._groups.get(group) or _Group(caller)
        old = found.values.get(name)
        more = _cost(name, text) - (0 if old is None else _cost(name, old))
        if _cost(name, text) > self._limits.by_value or more > max(0, self._shares.room(found.caller)):
            return False
        if self._groups.get(group) is None:
            self._groups.add(group, found, seconds)
        self._count(found, more)
        found.values[name] = text
        self._groups.keep(group, seconds)
        return True

    async def delete(self, group: str, name: str) -> None:
        """Remove a value."""
        found = self._groups.get(group)
        if found is not None and (old := found.values.pop(name, None)) is not None:
            self._count(found, -_cost(name, old))
            if not found.values:
                self.forget(group)

    async def drop(self, group: str) -> None:
        """Remove a group."""
        self.forget(group)

    def forget(self, group: str) -> None:
        """Remove a group."""
        self._groups.remove(group)

    def _count(self, group: _Group, size: int) -> None:
        group.size += size
        self._shares.add(group.caller, size)

    def _release(self, group: _Group) -> None:
        self._count(group, -group.size)


class RedisState:
    """The values in Redis, for all replicas. Redis also counts their bytes.

    Args:
        prefix: begins the names of all keys.
    """

    def __init__(self, redis: "Redis", prefix: str, limits: StateLimits) -> None:
        self._redis = redis
        self._prefix = f"{prefix}:session_state"
        self._limits = limits

    async def get(self, group: str, name: str, renewed: int | None = None) -> bytes | None:
        """Return a value, see `StateValues.get`."""
        return await _Get(*self._of(group), name, renewed or 0).run(self._redis)

    async def put(self, group: str, name: str, text: bytes, caller: str, seconds: int) -> bool:
        """Store a value, see `StateValues.put`."""
        limits = self._limits
        if _cost(name, text) > limits.by_value:
            return False
        script = _Put(*self._of(group), name, text, caller, seconds, limits.by_caller, limits.most)
        return await script.run(self._redis) == 1

    async def delete(self, group: str, name: str) -> None:
        """Remove a value."""
        await _Delete(*self._of(group), name).run(self._redis)

    async def drop(self, group: str) -> None:
        """Remove a group."""
        await _Drop(*self._of(group)).run(self._redis)

    def _of(self, group: str) -> tuple[str, str, str, str]:
        """Return the values of the fields of `_OfGroup`."""
        return f"{self._prefix}:{group}", f"{self._prefix}_bytes", f"{self._prefix}_ends", group


class _OfGroup(Script[Result]):
    """The first part of each script: functions that count bytes."""

    values: RedisKey
    sizes: RedisKey
    """The bytes of each group (`group:`), of each caller (`caller:`) and of all values (`all`), and the caller of each
    group (`of:`). The key expires with the last group."""
    ends: RedisKey
    """The time at which each group expires. The key expires with the last group."""
    group: str

    lua = f"""
local now = tonumber(redis.call('TIME')[1])

local function number(field)
  return tonumber(redis.call('HGET', sizes, field) or 0)
end

local function add(field, amount)
  if redis.call('HINCRBY', sizes, field, amount) <= 0 then redis.call('HDEL', sizes, field) end
end

local function count(of, amount)
  add('group:' .. of, amount)
  local caller = redis.call('HGET', sizes, 'of:' .. of)
  if caller then add('caller:' .. caller, amount) end  -- a Redis that is full may have dropped the counts
  add('all', amount)
end

local function forget(of)
  if redis.call('HEXISTS', sizes, 'of:' .. of) == 1 then
    count(of, 0 - number('group:' .. of))  -- Redis cannot read -0
    redis.call('HDEL', sizes, 'of:' .. of)
  end
  redis.call('ZREM', ends, of)
end

local function cost(name)
  if redis.call('HEXISTS', values, name) == 0 then return 0 end
  return #name + #redis.call('HGET', values, name) + {VALUE_BYTES}
end

local function keep(seconds)
  redis.call('EXPIRE', values, seconds)
  redis.call('ZADD', ends, now + seconds, group)
  for _, counts in ipairs({{ends, sizes}}) do
    if redis.call('TTL', counts) < seconds then redis.call('EXPIRE', counts, seconds) end
  end
end
"""


class _Get(_OfGroup[bytes | None]):
    """Returns a value."""

    name: str
    renewed: int
    """New lifetime of the group, in seconds. 0: the lifetime does not change."""

    lua = """
local found = redis.call('HGET', values, name)
if found and renewed > 0 then keep(renewed) end
return found
"""


class _Put(_OfGroup[int]):
    """Stores a value. Returns 1, or 0 if a limit leaves no room for it."""

    name: str
    text: bytes
    caller_of_new_group: str
    """The caller whose share the group uses, if the group is new."""
    seconds: int
    most_of_caller: int
    most: int

    lua = f"""
for _, ended in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now - 1, 'LIMIT', 0, 100)) do forget(ended) end
if redis.call('EXISTS', values) == 0 then forget(group) end
local caller = redis.call('HGET', sizes, 'of:' .. group) or caller_of_new_group
local more = #name + #text + {VALUE_BYTES} - cost(name)
if more > 0 and (number('caller:' .. caller) + more > most_of_caller or number('all') + more > most) then return 0 end
redis.call('HSET', sizes, 'of:' .. group, caller)
redis.call('HSET', values, name, text)
count(group, more)
keep(seconds)
return 1
"""


class _Delete(_OfGroup[None]):
    """Removes a value."""

    name: str

    lua = """
local less = cost(name)
if less > 0 then
  redis.call('HDEL', values, name)
  count(group, -less)
  if redis.call('EXISTS', values) == 0 then forget(group) end
end
"""


class _Drop(_OfGroup[None]):
    """Removes a group."""

    lua = """
redis.call('DEL', values)
forget(group)
"""
