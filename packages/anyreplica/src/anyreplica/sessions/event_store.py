"""The store of the events of calls that a client can resume, and of the round that a call waits in.

One replica owns each call. Only the owner writes events of the call and begins its rounds. So a stalled replica does no
harm when it wakes up after another replica has taken over its call.
"""

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anyreplica.shared.lost_redis import raising_os_errors
from anyreplica.shared.wakeups import ONCE, Wakeups

if TYPE_CHECKING:
    from redis.asyncio import Redis

FOREIGN, UNKNOWN = 0, -1
"""Results of a change of a call. `FOREIGN`: another replica owns the call, or the call is over. `UNKNOWN`: the store no
longer has the call."""
_BUSY = b""
"""The result of a change of the owner while the call does not wait for its client."""
_MOST_EVENTS = 10_000
"""Maximum number of events of a call in the store. Later events are not stored, except the last one."""
SLACK_SECONDS = 60
"""Time for which the events stay in the store after the time in which a client can resume, in seconds."""
_DELIVERED_SECONDS = 10
"""Time for which the events stay after the result was sent, in seconds. Only a client that lost it needs them."""
_LIFE_MILLISECONDS = 20_000
"""Time for which the store keeps a sign of life, in milliseconds. The rest of this time tells the age of the sign."""


@dataclass(frozen=True, slots=True)
class EventPart:
    """The events of a call after a number of events, as the log has them."""

    events: list[bytes]
    is_whole: bool
    """Whether the call has written its last event."""
    reader: str
    """Random text that identifies the newest reader of the events."""
    owner: str
    """Random text that identifies the replica that runs the call."""
    request: str
    """The JSON-RPC id of the call, as JSON."""


class EventStore(Protocol):
    """The store of events. Each method raises OSError if the store cannot be reached."""

    async def begin(self, stream: str, session: str, owner: str, request: str) -> None:
        """Begin the events of a call."""

    async def append(self, stream: str, owner: str, event: bytes, mark: str, *, last: bool, delivered: bool) -> int:
        """Write an event and return its number, which begins with 1.

        `mark` is another one for each event. If the newest event has the same mark, it is this event, and only the
        reply was lost. `delivered` means that the event goes to a client whose connection is open. Write nothing and
        return `FOREIGN` if the call has another owner or has written its last event; return `UNKNOWN` if the store has
        lost the call.
        """

    async def wait_in_round(self, stream: str, owner: str, sealed: str, number: int) -> bool:
        """Note that a call waits for its client, with the sealed round. Return False if the call has another owner.

        Note nothing if the call has already left the round with this number: Redis does the commands of two
        connections in any order.
        """

    async def leave_round(self, stream: str, owner: str, number: int) -> bool:
        """Note that a call no longer waits for its client. Return False if the call has another owner."""

    async def give_up(self, stream: str, owner: str, sealed: str, number: int) -> bool:
        """Give up the call of an owner, so that another replica can take it over.

        If the store does not have the sealed round yet, note it as `wait_in_round` does. An empty text: the call does
        not wait in a round.

        Return False if the owner keeps the call, because it does not wait for its client. Return True if the owner no
        longer owns the call: it gave the call up, another replica owns it, or the call is over.
        """

    async def take_over(self, stream: str, lost: str, owner: str) -> str | None:
        """Make `owner` the owner of a call that waits for its client, if its owner is still `lost`.

        Return the sealed round. Return an empty text if the call does not wait, and None if it has another owner than
        `lost`.
        """

    async def show_life(self, owner: str) -> None:
        """Note that a replica runs."""

    async def show_end(self, owner: str) -> None:
        """Note that a replica has ended."""

    async def silence(self, owner: str) -> float:
        """Return the seconds since a replica last showed that it runs. Infinity: it has ended, or long ago."""

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        """Return the events after a number. None: this session has no such stream."""

    async def set_reader(self, stream: str, reader: str) -> None:
        """Make a reader the newest one."""

    async def keep(self, stream: str) -> None:
        """Keep the events of a call that goes on."""

    async def follow(self, stream: str, seconds: float) -> None:
        """Note that a reader follows the events, for some seconds."""

    async def is_followed(self, stream: str) -> bool:
        """Return whether a reader follows the events."""


@dataclass(slots=True)
class _Stream:
    session: str
    owner: str
    request: str
    reader: str = ""
    events: list[bytes] = field(default_factory=list)
    is_whole: bool = False
    expires: float = 0.0
    followed: float = 0.0


class LocalEvents:
    """The store of a single replica, in its memory."""

    def __init__(self, seconds: float, wakeups: Wakeups) -> None:
        self._seconds = seconds + SLACK_SECONDS
        self._wakeups = wakeups
        self._streams: dict[str, _Stream] = {}

    async def begin(self, stream: str, session: str, owner: str, request: str) -> None:
        now = time.monotonic()
        for name in [name for name, each in self._streams.items() if each.expires < now]:
            del self._streams[name]
        self._streams[stream] = _Stream(session, owner, request, expires=now + self._seconds)

    async def append(self, stream: str, owner: str, event: bytes, mark: str, *, last: bool, delivered: bool) -> int:  # noqa: ARG002
        found = self._streams[stream]
        if found.is_whole:
            return FOREIGN
        if last or len(found.events) < _MOST_EVENTS:
            found.events.append(event)
        found.is_whole = last
        found.expires = time.monotonic() + (_DELIVERED_SECONDS if last and delivered else self._seconds)
        self._wakeups.wake(name_of(stream))
        return len(found.events)

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        found = self._streams.get(stream)
        if found is None or found.session != session or found.expires < time.monotonic():
            return None
        return EventPart(found.events[after:], found.is_whole, found.reader, found.owner, found.request)

    async def show_life(self, owner: str) -> None:
        """Do nothing: the only replica runs."""

    async def show_end(self, owner: str) -> None:
        """Do nothing: no other replica could ask."""

    async def silence(self, owner: str) -> float:  # noqa: ARG002
        return 0.0

    async def wait_in_round(self, stream: str, owner: str, sealed: str, number: int) -> bool:  # noqa: ARG002
        return True

    async def leave_round(self, stream: str, owner: str, number: int) -> bool:  # noqa: ARG002
        return True

    async def give_up(self, stream: str, owner: str, sealed: str, number: int) -> bool:  # noqa: ARG002
        return False  # no other replica could take it over

    async def take_over(self, stream: str, lost: str, owner: str) -> str | None:  # noqa: ARG002
        return None

    async def set_reader(self, stream: str, reader: str) -> None:
        self._streams[stream].reader = reader

    async def keep(self, stream: str) -> None:
        self._streams[stream].expires = time.monotonic() + self._seconds

    async def follow(self, stream: str, seconds: float) -> None:
        self._streams[stream].followed = time.monotonic() + seconds

    async def is_followed(self, stream: str) -> bool:
        return self._streams[stream].followed > time.monotonic()


class RedisEvents:
    """The store that replicas share, in Redis. `prefix` begins the names of all keys."""

    def __init__(self, redis: "Redis", prefix: str, seconds: float, channel: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._seconds = int(seconds) + SLACK_SECONDS
        self._channel = channel
        self._append = redis.register_script(_OWNED + _APPEND)
        self._wait_in_round = redis.register_script(_OWNED + _WAIT_IN_ROUND)
        self._leave_round = redis.register_script(_OWNED + _LEAVE_ROUND)
        self._set_owner = redis.register_script(_OWNED + _SET_OWNER)
        self._read = redis.register_script(_READ)

    async def begin(self, stream: str, session: str, owner: str, request: str) -> None:
        fields: Any = {"session": session, "reader": "", "whole": "0", "owner": owner, "request": request}
        with raising_os_errors():
            async with self._redis.pipeline() as pipe:
                pipe.hset(self._about(stream), mapping=fields)
                pipe.expire(self._about(stream), self._seconds)
                await pipe.execute()

    async def append(self, stream: str, owner: str, event: bytes, mark: str, *, last: bool, delivered: bool) -> int:
        seconds = _DELIVERED_SECONDS if last and delivered else self._seconds
        keys = [self._about(stream), self._events(stream)]
        args: list[bytes | str | int] = [owner, event, int(last), seconds, _MOST_EVENTS]
        args += [self._channel, name_of(stream), mark]
        with raising_os_errors():
            return int(await self._append(keys=keys, args=args))

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        with raising_os_errors():
            found = await self._read(keys=[self._events(stream), self._about(stream)], args=[session, after])
        if not found:
            return None
        whole, reader, owner, request, *events = found
        return EventPart(events, whole == b"1", reader.decode(), owner.decode(), request.decode())

    async def show_life(self, owner: str) -> None:
        with raising_os_errors():
            await self._redis.set(self._alive(owner), b"", px=_LIFE_MILLISECONDS)

    async def show_end(self, owner: str) -> None:
        with raising_os_errors():
            await self._redis.delete(self._alive(owner))

    async def silence(self, owner: str) -> float:
        with raising_os_errors():
            left = await self._redis.pttl(self._alive(owner))
        return (_LIFE_MILLISECONDS - left) / 1000 if left >= 0 else math.inf

    async def wait_in_round(self, stream: str, owner: str, sealed: str, number: int) -> bool:
        with raising_os_errors():
            return bool(await self._wait_in_round(keys=[self._about(stream)], args=[owner, sealed, number]) != FOREIGN)

    async def leave_round(self, stream: str, owner: str, number: int) -> bool:
        with raising_os_errors():
            return bool(await self._leave_round(keys=[self._about(stream)], args=[owner, number]) != FOREIGN)

    async def give_up(self, stream: str, owner: str, sealed: str, number: int) -> bool:
        with raising_os_errors():
            args: list[str | int] = [owner, "", self._channel, name_of(stream), sealed, number]
            return await self._set_owner(keys=[self._about(stream)], args=args) not in (_BUSY, UNKNOWN)

    async def take_over(self, stream: str, lost: str, owner: str) -> str | None:
        with raising_os_errors():
            args: list[str | int] = [lost, owner, self._channel, name_of(stream), "", 0]
            sealed = await self._set_owner(keys=[self._about(stream)], args=args)
        return sealed.decode() if isinstance(sealed, bytes) else None

    async def set_reader(self, stream: str, reader: str) -> None:
        with raising_os_errors():
            await self._redis.hset(self._about(stream), "reader", reader)

    async def keep(self, stream: str) -> None:
        with raising_os_errors():
            async with self._redis.pipeline() as pipe:
                pipe.expire(self._about(stream), self._seconds)
                pipe.expire(self._events(stream), self._seconds)
                await pipe.execute()

    async def follow(self, stream: str, seconds: float) -> None:
        with raising_os_errors():
            await self._redis.set(f"{self._about(stream)}:followed", b"", ex=max(1, int(seconds)))

    async def is_followed(self, stream: str) -> bool:
        with raising_os_errors():
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
local count = redis.call('LLEN', KEYS[2])
if redis.call('HGET', KEYS[1], 'newest') == ARGV[8] then return count end
if ARGV[3] == '1' or count < tonumber(ARGV[5]) then
    count = redis.call('RPUSH', KEYS[2], ARGV[2])
    redis.call('HSET', KEYS[1], 'whole', ARGV[3], 'newest', ARGV[8])
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
redis.call('PUBLISH', ARGV[6], ARGV[7])
return count
"""
"""A script that writes an event and wakes the readers of the events."""

_WAIT_IN_ROUND = """
if left < tonumber(ARGV[3]) then redis.call('HSET', KEYS[1], 'round', ARGV[2]) end
return 1
"""

_LEAVE_ROUND = """
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
local found = redis.call('HMGET', KEYS[2], 'whole', 'reader', 'owner', 'request')
for _, event in ipairs(redis.call('LRANGE', KEYS[1], ARGV[2], -1)) do table.insert(found, event) end
return found
"""
"""A script that returns the events of a call, if it belongs to the session."""


def name_of(stream: str) -> str:
    """Return the name of the wake-ups for new events of a call."""
    return f"events:{stream}"


def reader_of(stream: str) -> str:
    """Return the name of the wake-ups for a new reader of a call's events."""
    return f"{ONCE}reader:{stream}"  # an order: after a loss of Redis, no client must move on
