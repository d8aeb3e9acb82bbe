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
from anyreplica.shared.script import RedisKey, Result, Script

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
        script = _Append(
            about=self._about(stream),
            owner=owner,
            events=self._events(stream),
            event=event,
            mark=mark,
            last=last,
            seconds=seconds,
            most_events=MOST_EVENTS,
            most_bytes=limit,
            event_bytes=EVENT_BYTES,
            channel=self._channel,
            stream=name_of(stream),
        )
        written = await script.run(self._redis)
        return WrittenEvent(written) if isinstance(written, int) else WrittenEvent(*map(int, written))

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        found = await _Read(self._about(stream), self._events(stream), session, after, PART_BYTES).run(self._redis)
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
        return await _WaitInRound(self._about(stream), owner, sealed, number).run(self._redis) != FOREIGN

    async def end_round(self, stream: str, owner: str, number: int) -> bool:
        return await _EndRound(self._about(stream), owner, number).run(self._redis) != FOREIGN

    async def hand_over(self, stream: str, owner: str, sealed: str, number: int) -> bool:
        script = _SetOwner(
            about=self._about(stream),
            owner=owner,
            new_owner="",
            sealed=sealed,
            number=number,
            channel=self._channel,
            stream=name_of(stream),
        )
        return await script.run(self._redis) not in (_BUSY, UNKNOWN)

    async def take_over(self, stream: str, lost: str, owner: str) -> str | None:
        script = _SetOwner(
            about=self._about(stream),
            owner=lost,
            new_owner=owner,
            sealed="",
            number=0,
            channel=self._channel,
            stream=name_of(stream),
        )
        sealed = await script.run(self._redis)
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


class _OfOwner(Script[Result]):
    """The first part of each script that changes a call: only its owner may do it, and only before the last event.

    Returns `UNKNOWN` if the call is not known, and `FOREIGN` if its owner is another one or the last event is written.
    """

    about: RedisKey
    owner: str

    lua = """
local found = redis.call('HMGET', about, 'owner', 'whole', 'round', 'left')
if not found[1] then return -1 end
if found[1] ~= owner or found[2] == '1' then return 0 end
local left = tonumber(found[4] or '-1')
"""


class _Append(_OfOwner[int | list[int]]):
    """Writes an event, drops the oldest events beyond the limits, and wakes the readers of the events."""

    events: RedisKey
    event: bytes
    mark: str
    last: bool
    seconds: int
    most_events: int
    most_bytes: int
    event_bytes: int
    channel: str
    stream: str

    lua = """
local state = redis.call('HMGET', about, 'newest', 'dropped', 'size')
local dropped, size = tonumber(state[2] or '0'), tonumber(state[3] or '0')
if state[1] == mark then return {dropped + redis.call('LLEN', events), size} end
local count = redis.call('RPUSH', events, event)
size = size + #event + event_bytes
while count > 0 and (size > most_bytes or count > most_events) do
    size = size - #redis.call('LPOP', events) - event_bytes
    dropped = dropped + 1
    count = count - 1
end
redis.call('HSET', about, 'whole', last, 'newest', mark, 'dropped', dropped, 'size', size)
redis.call('EXPIRE', about, seconds)
redis.call('EXPIRE', events, seconds)
redis.call('PUBLISH', channel, stream)
return {dropped + count, size}
"""


class _WaitInRound(_OfOwner[int]):
    """Notes the sealed round `number`, unless the call has already left it. Returns 1."""

    sealed: str
    number: int

    lua = """
if left < number then redis.call('HSET', about, 'round', sealed) end
return 1
"""


class _EndRound(_OfOwner[int]):
    """Notes that the call has left the round `number`. Returns 1."""

    number: int

    lua = """
redis.call('HDEL', about, 'round')
redis.call('HSET', about, 'left', number)
return 1
"""


class _SetOwner(_OfOwner[int | bytes]):
    """Changes the owner of a call that waits for its client, and returns the sealed round.

    Returns `_BUSY` if the call does not wait.
    """

    new_owner: str
    sealed: str
    number: int
    channel: str
    stream: str

    lua = """
local round = found[3]
if not round and sealed ~= '' and left < number then
    round = sealed
    redis.call('HSET', about, 'round', round)
end
if not round then return '' end
redis.call('HSET', about, 'owner', new_owner)
redis.call('PUBLISH', channel, stream)
return round
"""


class _Read(Script[list[Any]]):
    """Returns six values about a call, and then its events behind the event number `after`, up to `most_bytes`.

    Returns an empty list if the call belongs to another session.
    """

    about: RedisKey
    events: RedisKey
    session: str
    after: int
    most_bytes: int

    lua = """
if redis.call('HGET', about, 'session') ~= session then return {} end
local fields = redis.call('HMGET', about, 'whole', 'reader', 'owner', 'request', 'dropped')
local found = {0, unpack(fields)}
local place, size = math.max(0, after - tonumber(fields[5] or '0')), 0
while true do
    local part = redis.call('LRANGE', events, place, place + 99)
    for number, event in ipairs(part) do
        size = size + #event
        if size > most_bytes and #found > 6 then
            found[1] = 1
            return found
        end
        table.insert(found, event)
    end
    if #part < 100 then return found end
    place = place + 100
end
"""
