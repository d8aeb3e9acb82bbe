"""The store of events that replicas share, in Redis."""

import math
from typing import TYPE_CHECKING, Any

from anyreplica.features.sessions.event_store import (
    DELIVERED_SECONDS,
    FOREIGN,
    MOST_EVENTS,
    PART_BYTES,
    SLACK_SECONDS,
    UNKNOWN,
    EventPart,
    WrittenEvent,
    name_of,
)
from anyreplica.features.sessions.resume_bytes import EVENT_BYTES
from anyreplica.shared.lost_redis import translate_redis_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

_BUSY = b""
"""The result of a change of the owner while the call does not wait for its client."""
_LIFE_MILLISECONDS = 20_000
"""Time for which Redis keeps a sign of life, in milliseconds. The rest of this time tells the age of the sign."""


class RedisEvents:
    """The store that replicas share, in Redis. `prefix` begins the names of all keys."""

    def __init__(self, redis: "Redis", prefix: str, seconds: float, channel: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._seconds = int(seconds) + SLACK_SECONDS
        self._channel = channel
        self._append = redis.register_script(_OWNED + _APPEND)
        self._wait_in_round = redis.register_script(_OWNED + _WAIT_IN_ROUND)
        self._end_round = redis.register_script(_OWNED + _END_ROUND)
        self._set_owner = redis.register_script(_OWNED + _SET_OWNER)
        self._read = redis.register_script(_READ)

    async def begin(self, stream: str, session: str, owner: str, request: str) -> None:
        fields: Any = {"session": session, "reader": "", "whole": "0", "owner": owner, "request": request}
        with translate_redis_errors():
            async with self._redis.pipeline() as pipe:
                pipe.hset(self._about(stream), mapping=fields)
                pipe.expire(self._about(stream), self._seconds)
                await pipe.execute()

    async def append(
        self, stream: str, owner: str, event: bytes, mark: str, limit: int, *, last: bool, delivered: bool
    ) -> WrittenEvent:
        seconds = DELIVERED_SECONDS if last and delivered else self._seconds
        keys = [self._about(stream), self._events(stream)]
        args: list[bytes | str | int] = [owner, event, int(last), seconds, MOST_EVENTS, limit, EVENT_BYTES]
        args += [self._channel, name_of(stream), mark]
        with translate_redis_errors():
            written = await self._append(keys=keys, args=args)
        return WrittenEvent(written) if isinstance(written, int) else WrittenEvent(*map(int, written))

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        keys = [self._events(stream), self._about(stream)]
        args: list[str | int] = [session, after, PART_BYTES]
        with translate_redis_errors():
            found = await self._read(keys=keys, args=args)
        if not found:
            return None
        has_more, whole, reader, owner, request, dropped, *events = found
        texts = reader.decode(), owner.decode(), request.decode()
        return EventPart(events, int(dropped or 0), bool(has_more), whole == b"1", *texts)

    async def show_life(self, owner: str) -> None:
        with translate_redis_errors():
            await self._redis.set(self._alive(owner), b"", px=_LIFE_MILLISECONDS)

    async def show_end(self, owner: str) -> None:
        with translate_redis_errors():
            await self._redis.delete(self._alive(owner))

    async def silence(self, owner: str) -> float:
        with translate_redis_errors():
            left = await self._redis.pttl(self._alive(owner))
        return (_LIFE_MILLISECONDS - left) / 1000 if left >= 0 else math.inf

    async def wait_in_round(self, stream: str, owner: str, sealed: str, number: int) -> bool:
        with translate_redis_errors():
            return bool(await self._wait_in_round(keys=[self._about(stream)], args=[owner, sealed, number]) != FOREIGN)

    async def end_round(self, stream: str, owner: str, number: int) -> bool:
        with translate_redis_errors():
            return bool(await self._end_round(keys=[self._about(stream)], args=[owner, number]) != FOREIGN)

    async def give_up(self, stream: str, owner: str, sealed: str, number: int) -> bool:
        with translate_redis_errors():
            args: list[str | int] = [owner, "", self._channel, name_of(stream), sealed, number]
            return await self._set_owner(keys=[self._about(stream)], args=args) not in (_BUSY, UNKNOWN)

    async def take_over(self, stream: str, lost: str, owner: str) -> str | None:
        with translate_redis_errors():
            args: list[str | int] = [lost, owner, self._channel, name_of(stream), "", 0]
            sealed = await self._set_owner(keys=[self._about(stream)], args=args)
        return sealed.decode() if isinstance(sealed, bytes) else None

    async def set_reader(self, stream: str, reader: str) -> None:
        with translate_redis_errors():
            await self._redis.hset(self._about(stream), "reader", reader)

    async def keep(self, stream: str) -> None:
        with translate_redis_errors():
            async with self._redis.pipeline() as pipe:
                pipe.expire(self._about(stream), self._seconds)
                pipe.expire(self._events(stream), self._seconds)
                await pipe.execute()

    async def follow(self, stream: str, seconds: float) -> None:
        with translate_redis_errors():
            await self._redis.set(f"{self._about(stream)}:followed", b"", ex=max(1, int(seconds)))

    async def is_followed(self, stream: str) -> bool:
        with translate_redis_errors():
            return bool(await self._redis.exists(f"{self._about(stream)}:followed"))

    def _alive(self, owner: str) -> str:
        return f"{self._prefix}:alive:{owner}"

    def _events(self, stream: str) -> str:
        return f"{self._prefix}:call_events:{stream}"

    def _about(self, stream: str) -> str:
        return f"{self._prefix}:call:{stream}"


_OWNED = """
local found = redis.call('HMGET', KEYS[1], 'owner', 'whole', 'round', 'left')
if not found[1] then return -1 end
if found[1] ~= ARGV[1] or found[2] == '1' then return 0 end
local left = tonumber(found[4] or '-1')
"""
"""The beginning of each script that changes a call: only its owner may do it, and only before the last event."""

_APPEND = """
local about = redis.call('HMGET', KEYS[1], 'newest', 'dropped', 'size')
local dropped, size = tonumber(about[2] or '0'), tonumber(about[3] or '0')
if about[1] == ARGV[10] then return {dropped + redis.call('LLEN', KEYS[2]), size} end
local most, limit, each = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local count = redis.call('RPUSH', KEYS[2], ARGV[2])
size = size + #ARGV[2] + each
while count > 0 and (size > limit or count > most) do
    size = size - #redis.call('LPOP', KEYS[2]) - each
    dropped = dropped + 1
    count = count - 1
end
redis.call('HSET', KEYS[1], 'whole', ARGV[3], 'newest', ARGV[10], 'dropped', dropped, 'size', size)
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
redis.call('PUBLISH', ARGV[8], ARGV[9])
return {dropped + count, size}
"""
"""A script that writes an event, drops the oldest events beyond the limits, and wakes the readers of the events."""

_WAIT_IN_ROUND = """
if left < tonumber(ARGV[3]) then redis.call('HSET', KEYS[1], 'round', ARGV[2]) end
return 1
"""

_END_ROUND = """
redis.call('HDEL', KEYS[1], 'round')
redis.call('HSET', KEYS[1], 'left', ARGV[2])
return 1
"""

_SET_OWNER = """
local round = found[3]
if not round and ARGV[5] ~= '' and left < tonumber(ARGV[6]) then
    round = ARGV[5]
    redis.call('HSET', KEYS[1], 'round', round)
end
if not round then return '' end
redis.call('HSET', KEYS[1], 'owner', ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return round
"""
"""A script that changes the owner of a call that waits for its client, and returns the sealed round."""

_READ = """
if redis.call('HGET', KEYS[2], 'session') ~= ARGV[1] then return {} end
local about = redis.call('HMGET', KEYS[2], 'whole', 'reader', 'owner', 'request', 'dropped')
local found = {0, unpack(about)}
local place, size = math.max(0, tonumber(ARGV[2]) - tonumber(about[5] or '0')), 0
while true do
    local events = redis.call('LRANGE', KEYS[1], place, place + 99)
    for number, event in ipairs(events) do
        size = size + #event
        if size > tonumber(ARGV[3]) and #found > 6 then
            found[1] = 1
            return found
        end
        table.insert(found, event)
    end
    if #events < 100 then return found end
    place = place + 100
end
"""
"""A script that returns the first events of a call after a number, if the call belongs to the session."""
