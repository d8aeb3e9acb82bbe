"""The events of calls that a client can resume after it has lost its connection.

A call in a session writes each event of its event stream into the log. A client that lost the connection continues at
any replica (MCP 2025-11-25, Transports, "Resumability and Redelivery").
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from mcp_types import INTERNAL_ERROR

from mcp_swarm.http.refusal import Refused
from mcp_swarm.http.responses import encode
from mcp_swarm.process.meanwhile import meanwhile
from mcp_swarm.sessions.session import Session
from mcp_swarm.shared.lost_redis import raising_os_errors
from mcp_swarm.shared.wakeups import RedisWakeups, Wakeups

if TYPE_CHECKING:
    from redis.asyncio import Redis

_LOOK_SECONDS = 1.5
"""Seconds after which a resumed stream looks whether the replica of the call still runs. It yields an empty event,
which also keeps proxies from closing the stream."""
_ALIVE_SECONDS = 3
"""Seconds after the last sign of life of a replica after which it counts as lost."""
_LOST = "The replica that ran this call was lost; send the call again."

_MOST_EVENTS = 10_000
"""Maximum number of events of a call in the log. Later events are not in the log, except the last one."""
_SLACK_SECONDS = 60
"""Time for which the events stay in the store after the time in which a client can resume, in seconds."""
_DELIVERED_SECONDS = 10
"""Time for which the events stay after the result was sent, in seconds. Only a client that lost it needs them."""


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


class _Log(Protocol):
    """The store of events. Each method raises OSError if the store cannot be reached."""

    async def begin(self, stream: str, session: str, owner: str, request: str) -> None:
        """Begin the events of a call."""

    async def append(self, stream: str, event: bytes, *, last: bool, delivered: bool) -> int:
        """Write an event and return its number, which begins with 1.

        `delivered` means that the last event goes to a client whose connection is open. After the last event, nothing
        is written.
        """

    async def show_life(self, owner: str, seconds: int) -> None:
        """Note that a replica runs, for some seconds."""

    async def is_alive(self, owner: str) -> bool:
        """Return whether a replica runs."""

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        """Return the events after a number. None: this session has no such stream."""

    async def take_over(self, stream: str, reader: str) -> None:
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


class _LocalLog:
    """The store of a single replica, in its memory."""

    def __init__(self, seconds: float, wakeups: Wakeups) -> None:
        self._seconds = seconds + _SLACK_SECONDS
        self._wakeups = wakeups
        self._streams: dict[str, _Stream] = {}

    async def begin(self, stream: str, session: str, owner: str, request: str) -> None:
        now = time.monotonic()
        for name in [name for name, each in self._streams.items() if each.expires < now]:
            del self._streams[name]
        self._streams[stream] = _Stream(session, owner, request, expires=now + self._seconds)

    async def append(self, stream: str, event: bytes, *, last: bool, delivered: bool) -> int:
        found = self._streams[stream]
        if found.is_whole:
            return 0
        if last or len(found.events) < _MOST_EVENTS:
            found.events.append(event)
        found.is_whole = last
        found.expires = time.monotonic() + (_DELIVERED_SECONDS if delivered else self._seconds)
        self._wakeups.wake(name_of(stream))
        return len(found.events)

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        found = self._streams.get(stream)
        if found is None or found.session != session or found.expires < time.monotonic():
            return None
        return EventPart(found.events[after:], found.is_whole, found.reader, found.owner, found.request)

    async def show_life(self, owner: str, seconds: int) -> None:
        """Do nothing: the only replica runs."""

    async def is_alive(self, owner: str) -> bool:  # noqa: ARG002
        return True

    async def take_over(self, stream: str, reader: str) -> None:
        self._streams[stream].reader = reader

    async def keep(self, stream: str) -> None:
        self._streams[stream].expires = time.monotonic() + self._seconds

    async def follow(self, stream: str, seconds: float) -> None:
        self._streams[stream].followed = time.monotonic() + seconds

    async def is_followed(self, stream: str) -> bool:
        return self._streams[stream].followed > time.monotonic()


class _RedisLog:
    """The store that replicas share, in Redis. `prefix` begins the names of all keys."""

    def __init__(self, redis: "Redis", prefix: str, seconds: float, channel: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._seconds = int(seconds) + _SLACK_SECONDS
        self._channel = channel
        self._append = redis.register_script(_APPEND)
        self._read = redis.register_script(_READ)

    async def begin(self, stream: str, session: str, owner: str, request: str) -> None:
        fields: Any = {"session": session, "reader": "", "whole": "0", "owner": owner, "request": request}
        with raising_os_errors():
            async with self._redis.pipeline() as pipe:
                pipe.hset(self._about(stream), mapping=fields)
                pipe.expire(self._about(stream), self._seconds)
                await pipe.execute()

    async def append(self, stream: str, event: bytes, *, last: bool, delivered: bool) -> int:
        seconds = _DELIVERED_SECONDS if delivered else self._seconds
        keys = [self._events(stream), self._about(stream)]
        args: list[bytes | str | int] = [event, int(last), seconds, _MOST_EVENTS, self._channel, name_of(stream)]
        with raising_os_errors():
            return int(await self._append(keys=keys, args=args))

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        with raising_os_errors():
            found = await self._read(keys=[self._events(stream), self._about(stream)], args=[session, after])
        if not found:
            return None
        whole, reader, owner, request, *events = found
        return EventPart(events, whole == b"1", reader.decode(), owner.decode(), request.decode())

    async def show_life(self, owner: str, seconds: int) -> None:
        with raising_os_errors():
            await self._redis.set(f"{self._prefix}:alive:{owner}", b"", ex=seconds)

    async def is_alive(self, owner: str) -> bool:
        with raising_os_errors():
            return bool(await self._redis.exists(f"{self._prefix}:alive:{owner}"))

    async def take_over(self, stream: str, reader: str) -> None:
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

    def _events(self, stream: str) -> str:
        return f"{self._prefix}:call_events:{stream}"

    def _about(self, stream: str) -> str:
        return f"{self._prefix}:call:{stream}"


_APPEND = """
if redis.call('HGET', KEYS[2], 'whole') == '1' then return 0 end
local count = redis.call('LLEN', KEYS[1])
if ARGV[2] == '1' or count < tonumber(ARGV[4]) then
    count = redis.call('RPUSH', KEYS[1], ARGV[1])
    redis.call('HSET', KEYS[2], 'whole', ARGV[2])
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('PUBLISH', ARGV[5], ARGV[6])
return count
"""
"""A script that writes an event and wakes the readers of the events."""

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


def _reader_of(stream: str) -> str:
    """Return the name of the wake-ups for a new reader of a call's events."""
    return f"reader:{stream}"


class EventLog:
    """The events of all calls that can be resumed.

    Args:
        seconds: time for which a call goes on without a connection, and for which its events stay after its end.
    """

    def __init__(self, redis: "Redis | None", prefix: str, wakeups: Wakeups, seconds: float) -> None:
        self.seconds = seconds
        self.wakeups = wakeups
        self.resumed = 0
        """Number of streams that clients have resumed at this replica."""
        self.lost = 0
        """Number of calls that this replica has ended, because their replica was lost."""
        self._owner = secrets.token_hex(8)
        if redis is None:
            self.log: _Log = _LocalLog(seconds, wakeups)
        else:
            assert isinstance(wakeups, RedisWakeups)  # noqa: S101
            self.log = _RedisLog(redis, prefix, seconds, wakeups.channel)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Show the other replicas that this one runs, inside the `async with` block."""
        async with meanwhile(self._show_life()):
            yield

    async def _show_life(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self.log.show_life(self._owner, _ALIVE_SECONDS)
            await asyncio.sleep(1)

    async def begin(self, session: Session, request: int | str) -> "CallEvents":
        """Begin the events of a call with this JSON-RPC id. Raise OSError if the store cannot be reached."""
        stream = secrets.token_urlsafe(16)
        await self.log.begin(stream, session.key, self._owner, encode(request).decode())
        return CallEvents(self, stream)

    async def resume(self, session: Session, event_id: str) -> AsyncGenerator[tuple[str, bytes]]:
        """Yield the events after an event, each with its id, and an empty event at the start and after each pause.

        The iterator ends after the last event of the call, or when another reader resumes the same call.

        Raises:
            Refused: HTTP 400: this session has no such event.
            OSError: the store cannot be reached.
        """
        stream, _, number = event_id.rpartition(".")
        reader, after = secrets.token_hex(8), int(number) if number.isdecimal() and len(number) < 10 else -1
        part = await self.log.read(stream, session.key, after) if stream and after >= 0 else None
        if part is None:
            raise Refused(400, "Unknown or expired event id in Last-Event-ID; call the tool again.")
        await self.log.follow(stream, self.seconds)
        await self.log.take_over(stream, reader)
        await self.wakeups.wake_everywhere(_reader_of(stream))
        self.resumed += 1
        yield "", b""
        with (
            self.wakeups.waiting(name_of(stream)) as woken,
            self.wakeups.listening(_reader_of(stream), woken.set),
        ):
            while part is not None:
                woken.clear()
                with contextlib.suppress(OSError):  # look again when the store can be reached
                    part = await self._part(stream, session, after)
                    if part is None or part.reader != reader:
                        return
                    for event in part.events:
                        after += 1
                        yield f"{stream}.{after}", event
                    if part.is_whole:
                        return
                    await self.log.follow(stream, self.seconds)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(_LOOK_SECONDS, self.seconds / 2)):
                        await woken.wait()
                if not woken.is_set():
                    yield "", b""

    async def _part(self, stream: str, session: Session, after: int) -> EventPart | None:
        """Return the events after a number. If the replica of the call was lost, end the call with an error."""
        part = await self.log.read(stream, session.key, after)
        if part is None or part.is_whole or await self.log.is_alive(part.owner):
            return part
        error = encode({"code": INTERNAL_ERROR, "message": _LOST}).decode()
        message = f'{{"jsonrpc":"2.0","id":{part.request},"error":{error}}}'.encode()
        if await self.log.append(stream, message, last=True, delivered=False):
            self.lost += 1
        return await self.log.read(stream, session.key, after)


class CallEvents:
    """The events of one call, on the replica that runs it."""

    __slots__ = ("_log", "_stream")

    def __init__(self, log: EventLog, stream: str) -> None:
        self._log = log
        self._stream = stream

    @property
    def first_id(self) -> str:
        """The id of the empty event before all others, with which a client can resume the whole stream."""
        return f"{self._stream}.0"

    @property
    def seconds(self) -> float:
        """Time for which the call goes on without a client, in seconds."""
        return self._log.seconds

    def taken_over(self, on_reader: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `on_reader` when a client follows these events over another connection, inside the `with` block."""
        return self._log.wakeups.listening(_reader_of(self._stream), on_reader)

    async def append(self, event: bytes, *, last: bool, delivered: bool) -> str:
        """Write an event and return its id. Raise OSError if the store cannot be reached.

        `delivered` means that the last event goes to a client whose connection is open. Then the events do not stay
        long, so that calls cannot fill the store.
        """
        number = await self._log.log.append(self._stream, event, last=last, delivered=delivered)
        return f"{self._stream}.{number}"

    async def lose_reader(self) -> None:
        """Note that the client has lost the connection of the call. It has some time to resume."""
        await self._log.log.follow(self._stream, self._log.seconds)

    async def has_reader(self) -> bool:
        """Keep the events, and return whether a client follows them or has time to resume."""
        await self._log.log.keep(self._stream)
        return await self._log.log.is_followed(self._stream)
