"""The events of calls that a client can resume after it has lost its connection.

A call in a session writes each event of its event stream into the log. A client that lost the connection continues at
any replica (MCP 2025-11-25, Transports, "Resumability and Redelivery").
"""

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_types import INTERNAL_ERROR
from pydantic_core import from_json

from anyreplica.features.sessions.call_events import CallEvents, OpenRound, ReplicaEvents, RoundSeal
from anyreplica.features.sessions.event_store import (
    SLACK_SECONDS,
    EventPart,
    EventStore,
    LocalEvents,
    name_of,
    reader_topic,
)
from anyreplica.features.sessions.redis_events import RedisEvents
from anyreplica.features.sessions.resume_bytes import EVENT_BYTES, ResumeBytes
from anyreplica.features.sessions.session import Session
from anyreplica.http.limits import Shares
from anyreplica.http.responses import FIRST_WITH_EMPTY, Refused, encode
from anyreplica.process.event_loop import background_task
from anyreplica.shared.lost_redis import QUICK_SECONDS, patiently, retry_for
from anyreplica.shared.notifier import Notifier, RedisNotifier

if TYPE_CHECKING:
    from redis.asyncio import Redis


_POLL_SECONDS = 0.8
"""Seconds after which a resumed stream checks whether the replica of the call still runs. It yields an empty event,
which also keeps proxies from closing the stream."""
_SILENT_SECONDS = 3.5
"""Seconds without a sign of life after which a replica counts as lost, if a client has waited as long. The client then
gets an error within 5 s after it has resumed its call."""
_LONG_SILENT_SECONDS = 8
"""Seconds without a sign of life after which a replica counts as lost in any case."""
_LARGE = 64 * 1024
"""Size in bytes from which on a part of the events is large."""
_SHOW_SECONDS = 0.5
"""Pause between two signs of life, in seconds."""
_END_BYTES = 1 << 30
"""Limit of the bytes of a call that another replica ends: what the store has stays."""
_LOST = "The replica that ran this call was lost; send the call again."


@dataclass(frozen=True, slots=True)
class AdoptedCall:
    """A call that waited for its client, and that this replica has taken over."""

    identity: int | str
    """The JSON-RPC id of the call."""
    round: OpenRound
    events: CallEvents
    sent: frozenset[str]
    """The ids of those questions of the round that the client has got or will get from the log."""


Continue = Callable[[AdoptedCall], object]
"""Starts a task that continues with a call."""


class EventLog(ReplicaEvents):
    """The events of all calls that can be resumed.

    Args:
        seconds: time for which a call goes on without a connection, and for which its events stay after its end.
        most: RESUME_BYTES, the limit of the bytes that this replica keeps.
        poll_seconds: time after which a resumed stream checks whether the replica of the call still runs, in seconds.
        silent_seconds: time without a sign of life after which a replica counts as lost, if a client has waited as
            long, in seconds.
    """

    def __init__(
        self,
        redis: "Redis | None",
        prefix: str,
        notifier: Notifier,
        seconds: float,
        keys: Sequence[str],
        most: int,
        *,
        poll_seconds: float = _POLL_SECONDS,
        silent_seconds: float = _SILENT_SECONDS,
    ) -> None:
        if redis is None:
            store: EventStore = LocalEvents(seconds, notifier)
        else:
            assert isinstance(notifier, RedisNotifier)  # noqa: S101
            store = RedisEvents(redis, prefix, seconds, notifier.channel)
        super().__init__(
            store, ResumeBytes(most, int(seconds) + SLACK_SECONDS), RoundSeal(keys, prefix), notifier, seconds
        )
        self._poll_seconds = poll_seconds
        self._silent_seconds = silent_seconds
        self._sending = Shares(most)
        """Bytes of the events that are being sent to clients that resume calls."""
        self._turns = asyncio.Lock()
        self.resumed = 0
        """Number of streams that clients have resumed at this replica."""
        self.lost = 0
        """Number of calls that this replica has ended, because their replica was lost."""
        self.adopted = 0
        """Number of calls that this replica has taken over."""
        self._healthy_since: float | None = None
        """Time of the first sign of life after the last one that failed or was slow. None: the newest one was such."""
        self._shown_at: float | None = None
        """Time at which the sign of life was sent that Redis has not answered yet. None: Redis has answered all."""
        self._taking: dict[str, asyncio.Task[None]] = {}
        self._readers: set[asyncio.Event] = set()
        self._closed = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Show the other replicas that this one runs, inside the `async with` block."""
        try:
            async with background_task(self._show_life()):
                yield
        finally:
            with contextlib.suppress(OSError):
                await self.store.show_end(self.owner)

    @property
    def is_healthy(self) -> bool:
        """Whether Redis answers the signs of life of this replica, and fast."""
        return self._healthy_since is not None and not self._is_late

    @property
    def _is_late(self) -> bool:
        return self._shown_at is not None and time.monotonic() - self._shown_at > QUICK_SECONDS

    async def _show_life(self) -> None:
        while True:
            try:
                self.sizes.expire()
                self._shown_at = time.monotonic()
                await patiently(self.store.show_life(self.owner))
                self._healthy_since = None if self._is_late else self._healthy_since or time.monotonic()
                self._shown_at = None
                while self.late:
                    events, result = self.late.pop(0)
                    await events.append(result, last=True, delivered=False, is_counted=True)
            except OSError:
                self._healthy_since = None
            await asyncio.sleep(_SHOW_SECONDS)

    async def _is_lost(self, part: EventPart, stream: str, waited: float) -> bool:
        """Return whether the replica that owns this unfinished call no longer runs it.

        A replica may stall for a few seconds, for example when its machine starts other containers. So a client waits
        for it, unless the silence is long.

        While Redis cannot be reached, no replica can give a sign of life. So this replica believes that another one is
        lost only after its own signs of life have reached Redis for some time. If Redis is slow, the signs of the other
        one are late, too.

        Args:
            waited: seconds since the client has resumed the call.
        """
        if part.owner in ("", self.owner):
            return stream not in self.running_here
        since = self._healthy_since
        if since is None or self._is_late or time.monotonic() - since < self._silent_seconds:
            return False
        asked = time.monotonic()
        silence = await patiently(self.store.silence(part.owner))
        if time.monotonic() - asked > QUICK_SECONDS:
            return False
        return silence > (self._silent_seconds if waited > self._silent_seconds else _LONG_SILENT_SECONDS)

    def close(self) -> None:
        """End all resumed streams. The clients then resume their calls at other replicas."""
        self._closed = True
        for woken in self._readers:
            woken.set()

    async def begin(self, session: Session, request: int | str, caller: str) -> CallEvents | None:
        """Begin the events of a call with this JSON-RPC id. Raise OSError if the store cannot be reached.

        Return None if no more calls of this caller can be kept. Then the client cannot resume the call.
        """
        stream, identity = secrets.token_urlsafe(16), encode(request).decode()
        if not self.sizes.begin(stream, caller):
            return None
        await self.store.begin(stream, session.key, self.owner, identity)
        return CallEvents(self, stream, identity)

    async def resume(
        self, session: Session, event_id: str, caller: str, go_on: Continue
    ) -> AsyncGenerator[tuple[str, bytes]]:
        """Yield the events after an event, each with its id, and an empty event at the start and after each pause.

        The empty event at the start has the id with which the client resumes.

        The iterator ends after the last event of the call, when another reader resumes the same call, or when this
        replica drains.

        Args:
            caller: the caller of the request, whose share of the limits counts.
            go_on: continues with the call, if its replica is lost and this replica takes it over.

        Raises:
            Refused: HTTP 400: this session has no such event, or the store has dropped the events after it.
            OSError: the store cannot be reached for some seconds.
        """
        stream, _, number = event_id.rpartition(".")
        reader, after = secrets.token_hex(8), int(number) if number.isdecimal() and len(number) < 10 else -1
        resumed = time.monotonic()
        await self._begin_reading(stream, session, after, reader)
        await patiently(self.notifier.wake_everywhere(reader_topic(stream)))
        self.resumed += 1
        # Without an id in this stream, the official TypeScript clients would not resume the call a second time.
        yield f"{stream}.{after}" if session.version >= FIRST_WITH_EMPTY else "", b""
        with (
            self.notifier.waiting(name_of(stream)) as woken,
            self.notifier.listening(reader_topic(stream), woken.set),
            contextlib.ExitStack() as stack,
        ):
            self._readers.add(woken)
            stack.callback(self._readers.discard, woken)
            while not self._closed:
                woken.clear()
                with contextlib.suppress(OSError):  # look again when the store can be reached
                    part = await self._part(stream, session, after, caller, go_on, time.monotonic() - resumed)
                    if part is None or part.reader != reader or after < part.dropped:
                        return
                    has_more, is_whole, count = part.has_more, part.is_whole, after + len(part.events)
                    async with self._sending_again(caller, part) as events:
                        for event in events:
                            after += 1
                            yield f"{stream}.{after}", event
                    del part, events  # they may be large, and the stream may wait for long now
                    if after == count and has_more:
                        continue
                    if after == count and is_whole:
                        return
                    await patiently(self.store.follow(stream, self.seconds))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(self._poll_seconds, self.seconds / 2)):
                        await woken.wait()
                if not woken.is_set():
                    yield "", b""

    async def _begin_reading(self, stream: str, session: Session, after: int, reader: str) -> None:
        """Make a reader the newest one of a call. Raise `Refused` or OSError like `resume`."""

        # The official Python client resumes a call at most twice if it gets errors.
        is_possible = stream and ":" not in stream and after >= 0
        part = await retry_for(lambda: self.store.read(stream, session.key, after)) if is_possible else None
        if part is None:
            raise Refused(400, "Unknown or expired event id in Last-Event-ID; call the tool again.")
        if after < part.dropped:
            text = f"The events after this Last-Event-ID were not kept: {self.sizes.describe()}. Call the tool again."
            raise Refused(400, text)
        await retry_for(lambda: self.store.follow(stream, self.seconds))
        await retry_for(lambda: self.store.set_reader(stream, reader))

    @contextlib.asynccontextmanager
    async def _sending_again(self, caller: str, part: EventPart) -> AsyncIterator[list[bytes]]:
        """Count the memory of events while they are sent to a client that resumes a call, and return the events.

        Return none if other streams of this caller use all the memory that its streams may use.
        """
        size = sum(map(len, part.events))
        if size > self._sending.room(caller) and self._sending.used_by(caller):
            yield []
            return
        self._sending.add(caller, size)
        try:
            if size > _LARGE:
                async with self._turns:  # one large part per turn of the event loop: sending it takes milliseconds
                    await asyncio.sleep(0)
            yield part.events
        finally:
            self._sending.add(caller, -size)

    async def _part(
        self, stream: str, session: Session, after: int, caller: str, go_on: Continue, waited: float
    ) -> EventPart | None:
        """Return the events after a number. If the replica of the call was lost, take the call over or end it."""
        part = await patiently(self.store.read(stream, session.key, after))
        if part is None or part.is_whole or part.has_more or stream in self._taking:
            return part
        if not await self._is_lost(part, stream, waited):
            return part
        # A task of its own, because a client that leaves must not interrupt a take-over.
        task = self._taking[stream] = asyncio.ensure_future(self._take_over(stream, session, part, caller, go_on))
        await asyncio.shield(task)
        return await patiently(self.store.read(stream, session.key, after))

    async def _take_over(self, stream: str, session: Session, part: EventPart, caller: str, go_on: Continue) -> None:
        """Take over a call of a lost replica, or end it. While Redis cannot be reached, leave it to a later look."""
        try:
            with contextlib.suppress(OSError):
                await self._adopt_or_end(stream, session, part, caller, go_on)
        finally:
            del self._taking[stream]

    async def _adopt_or_end(self, stream: str, session: Session, part: EventPart, caller: str, go_on: Continue) -> None:
        tries = itertools.count()

        async def attempt() -> str | None:
            if next(tries):  # the first try may have succeeded, although its reply was lost
                sealed = await self.store.take_over(stream, self.owner, self.owner)
                if sealed is not None:
                    return sealed
            return await self.store.take_over(stream, part.owner, self.owner)

        sealed = await retry_for(attempt)
        if sealed is None:  # another replica has taken over the call
            return
        found = self.seal.open(stream, sealed)
        if found is None:
            await self._end(stream, self.owner if sealed else part.owner, part.request)
            return
        sent, size = await self._sent(stream, session, found)
        self.adopted += 1
        self.sizes.adopt(stream, caller, size)
        go_on(AdoptedCall(from_json(part.request), found, CallEvents(self, stream, part.request), sent))

    async def _sent(self, stream: str, session: Session, found: OpenRound) -> tuple[frozenset[str], int]:
        """Look through the events of a call that the store has.

        Return the ids of those questions of a round that are among the events, and the size of all events.
        """
        sent: set[str] = set()
        after, size, has_more = 0, 0, True
        while has_more:
            part = await patiently(self.store.read(stream, session.key, after))
            if part is None:
                break
            events = b"".join(part.events)
            sent.update(each.identity for each in found.questions.values() if each.identity.encode() in events)
            size += len(events) + EVENT_BYTES * len(part.events)
            after, has_more = max(after, part.dropped) + len(part.events), part.has_more
        return frozenset(sent), size

    async def _end(self, stream: str, owner: str, request: str) -> None:
        """End a call of a lost replica with an error. Do nothing if the call has another owner by now."""
        error = encode({"code": INTERNAL_ERROR, "message": _LOST}).decode()
        message = f'{{"jsonrpc":"2.0","id":{request},"error":{error}}}'.encode()
        write = self.store.append(stream, owner, message, "end", _END_BYTES, last=True, delivered=False)
        if (await patiently(write)).number > 0:
            self.lost += 1
