"""The requests to clients that wait for an answer, and the answers that no call has taken yet."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from cachetools import FIFOCache

from anyreplica.features.sessions.ended_sessions import LocalEndedSessions, RedisEndedSessions
from anyreplica.shared.lost_redis import patiently, retry_for, translate_redis_errors
from anyreplica.shared.notifier import Notifier, RedisNotifier
from anyreplica.shared.script import RedisKey, Script

if TYPE_CHECKING:
    from redis.asyncio import Redis

Delivery = Literal["accepted", "late", "unknown", "ended"]
"""Result of delivering an answer. `accepted`: the call receives it. `late`: the call no longer waits. `unknown`: this
session has no such request, or it is answered already. `ended`: the session has ended."""

_POLL_SECONDS = 5.0
"""Pause between two checks for an answer whose wake-up was lost."""
_LATE_SECONDS = 600
"""Time after a call has stopped waiting, in seconds. In this time, an answer is `late`; afterwards, it is `unknown`."""
_REMEMBERED = 10_000
"""Maximum number of late requests that a single replica without Redis remembers."""
_MOST_BYTES = 16 * 1024 * 1024
_SLACK_SECONDS = 60
"""Time for which a request stays in Redis after its time limit, and an answer after its arrival, in seconds. With
HANDSHAKE_SESSIONS=full it stays longer, because another replica can take over the call."""


class SessionEnded(Exception):
    """The client has ended its session, so it cannot be asked."""


Wait = Callable[[float], Awaitable[bytes]]
"""Returns the answer to a request; raises TimeoutError after a number of seconds."""


class Answers(Protocol):
    """The store of waiting requests and of answers. A request belongs to one session.

    Each method raises OSError if the store cannot be reached. `waiting` first tries for some seconds. A call that
    already waits for an answer gets no OSError: it waits until the answer arrives or its time limit ends.
    """

    def waiting(
        self, identity: str, session: str, seconds: float, *, of_round: bool = False
    ) -> AbstractAsyncContextManager[Wait]:
        """Let a request wait for an answer inside the `async with` block, for at most `seconds`.

        Args:
            of_round: whether another replica may take over the request. Then the store keeps the request and its
                answer after the block, until `forget`.

        Raises:
            SessionEnded: the session has ended.
        """

    async def deliver(self, identity: str, session: str, answer: bytes, *, again: bool = False) -> Delivery:
        """Hand over the answer to a request. Only the first answer of the right session is taken.

        `again` means that this replica tries a second time, because it does not know whether the first try succeeded.
        """

    async def forget(self, identities: Iterable[str], session: str) -> None:
        """Forget requests of a round that is over, and their answers. If the store cannot be reached, they expire."""

    async def end(self, session: str, expires: float, caller: str) -> str:
        """Note that a session has ended. Return an empty text, or which limit leaves no room for the note.

        Args:
            expires: time at which the id of the session expires, in seconds since 1970. Until then, the store has the
                note.
            caller: the caller whose share of the limits counts.
        """

    async def has_ended(self, session: str) -> bool:
        """Return whether a session has ended."""


@dataclass(slots=True)
class _Waiting:
    session: str
    answer: bytes | None = None
    arrived: asyncio.Event = field(default_factory=asyncio.Event)


class LocalAnswers:
    """The store of a single replica, in its memory.

    Args:
        most: maximum number of bytes of the notes about ended sessions.
    """

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._late: FIFOCache[str, str] = FIFOCache(_REMEMBERED)
        self._ended = LocalEndedSessions(most)

    @asynccontextmanager
    async def waiting(
        self,
        identity: str,
        session: str,
        seconds: float,  # noqa: ARG002
        *,
        of_round: bool = False,  # noqa: ARG002  # there is no other replica
    ) -> AsyncIterator[Wait]:
        if session in self._ended:
            raise SessionEnded
        waiting = self._waiting[identity] = _Waiting(session)

        async def wait(seconds: float) -> bytes:
            async with asyncio.timeout(seconds):
                await waiting.arrived.wait()
            assert waiting.answer is not None  # noqa: S101
            return waiting.answer

        try:
            yield wait
        finally:
            del self._waiting[identity]
            if waiting.answer is None:
                self._late[identity] = session

    async def deliver(self, identity: str, session: str, answer: bytes, *, again: bool = False) -> Delivery:  # noqa: ARG002
        if session in self._ended:
            return "ended"
        waiting = self._waiting.get(identity)
        if waiting is None:
            return "late" if self._late.get(identity) == session else "unknown"
        if waiting.session != session or waiting.answer is not None:
            return "unknown"
        waiting.answer = answer
        waiting.arrived.set()
        return "accepted"

    async def forget(self, identities: Iterable[str], session: str) -> None:
        """Do nothing: a request and its answer end with their block."""

    async def end(self, session: str, expires: float, caller: str) -> str:
        return self._ended.add(session, expires, caller)

    async def has_ended(self, session: str) -> bool:
        return session in self._ended


class RedisAnswers:
    """The store that replicas share, in Redis.

    A waiting call reads the answer from Redis. A wake-up contains no answer: it only makes the call look in Redis. The
    call also checks every `poll_seconds`, so a lost wake-up does not lose the answer. All keys start with `prefix`.

    Args:
        seconds: time for which another replica can take over a call, in seconds.
        most: maximum number of bytes of the notes about ended sessions.
        poll_seconds: pause between two checks for an answer whose wake-up was lost, in seconds.
    """

    def __init__(
        self,
        redis: "Redis",
        prefix: str,
        notifier: RedisNotifier,
        seconds: float = 0,
        *,
        most: int = _MOST_BYTES,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._redis = redis
        self._prefix = prefix
        self._notifier = notifier
        self._keep = int(seconds) + _SLACK_SECONDS
        self._poll_seconds = poll_seconds
        self._ended_sessions = RedisEndedSessions(redis, prefix, most)

    @asynccontextmanager
    async def waiting(
        self, identity: str, session: str, seconds: float, *, of_round: bool = False
    ) -> AsyncIterator[Wait]:
        # The call listens before the client is asked, so that it does not miss the wake-up of a fast answer.
        with self._notifier.waiting(identity) as woken:
            expected = await retry_for(lambda: self._begin(identity, session, seconds))
            if expected == _SESSION_ENDED:
                raise SessionEnded
            if expected == _ANSWERED:
                woken.set()

            async def wait(seconds: float) -> bytes:
                return await self._wait(identity, woken, seconds)

            try:
                yield wait
            finally:
                if not of_round:
                    await asyncio.shield(self.forget((identity,), session))

    async def _begin(self, identity: str, session: str, seconds: float) -> int:
        keys = self._request(identity), self._answer(identity), self._ended(session)
        return await _Expect(*keys, session, int(seconds) + self._keep).run(self._redis)

    async def deliver(self, identity: str, session: str, answer: bytes, *, again: bool = False) -> Delivery:
        script = _Deliver(
            request=self._request(identity),
            stored_answer=self._answer(identity),
            ended_note=self._ended(session),
            session=session,
            answer=answer,
            answer_seconds=self._keep,
            request_seconds=_SLACK_SECONDS,
            channel=self._notifier.channel,
            identity=identity,
            again=again,
        )
        delivery = await script.run(self._redis)
        return delivery.decode()  # type: ignore[return-value]

    async def _wait(self, identity: str, woken: asyncio.Event, seconds: float) -> bytes:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            remaining = end - loop.time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(remaining, self._poll_seconds))):
                    await woken.wait()
            woken.clear()
            with contextlib.suppress(OSError), translate_redis_errors():  # look again when Redis is back
                answer = await patiently(self._redis.get(self._answer(identity)))
                if isinstance(answer, bytes):
                    return answer
            if remaining <= 0:
                raise TimeoutError

    async def forget(self, identities: Iterable[str], session: str) -> None:
        with contextlib.suppress(OSError):
            for identity in identities:
                script = _Forget(self._request(identity), self._answer(identity), session, _LATE_SECONDS)
                await script.run(self._redis)

    async def end(self, session: str, expires: float, caller: str) -> str:
        return await self._ended_sessions.add(self._ended(session), expires, caller)

    async def has_ended(self, session: str) -> bool:
        with translate_redis_errors():
            return bool(await self._redis.exists(self._ended(session)))

    def _request(self, identity: str) -> str:
        return f"{self._prefix}:client_request:{identity}"

    def _answer(self, identity: str) -> str:
        return f"{self._prefix}:client_answer:{identity}"

    def _ended(self, session: str) -> str:
        return f"{self._prefix}:session_ended:{session}"


_SESSION_ENDED, _ANSWERED = 0, 2


class _Expect(Script[int]):
    """Notes a waiting request. Returns `_SESSION_ENDED`, `_ANSWERED`, or 1 if the request now waits."""

    request: RedisKey
    stored_answer: RedisKey
    ended_note: RedisKey
    session: str
    seconds: int

    lua = """
if redis.call('EXISTS', ended_note) == 1 then return 0 end
if redis.call('EXISTS', stored_answer) == 1 then return 2 end
redis.call('SET', request, session, 'EX', seconds)
return 1
"""


class _Deliver(Script[bytes]):
    """Stores the first answer of the right session, and wakes the call that waits for it. Returns a `Delivery`.

    The key of the request then has a hash of the answer. A replica that tries again finds it, even if the call has
    taken and deleted the answer by then.
    """

    request: RedisKey
    stored_answer: RedisKey
    ended_note: RedisKey
    session: str
    answer: bytes
    answer_seconds: int
    request_seconds: int
    channel: str
    identity: str
    again: bool

    lua = """
if redis.call('EXISTS', ended_note) == 1 then return 'ended' end
local waiting = redis.call('GET', request)
local accepted = 'accepted:' .. session .. ':' .. redis.sha1hex(answer)
if again == 1 and waiting == accepted then return 'accepted' end
if waiting == 'late:' .. session then return 'late' end
if waiting ~= session then return 'unknown' end
redis.call('SET', stored_answer, answer, 'EX', answer_seconds)
redis.call('SET', request, accepted, 'EX', request_seconds)
redis.call('PUBLISH', channel, identity)
return 'accepted'
"""


class _Forget(Script[int]):
    """Deletes the answer to a request that no longer waits.

    If no answer has arrived yet, an answer that arrives later is `late`.
    """

    request: RedisKey
    stored_answer: RedisKey
    session: str
    late_seconds: int

    lua = """
if redis.call('UNLINK', stored_answer) == 0 and redis.call('GET', request) == session then
    redis.call('SET', request, 'late:' .. session, 'EX', late_seconds)
end
return 1
"""


def answers(redis: "Redis | None", prefix: str, notifier: Notifier, seconds: float, most: int) -> Answers:
    """Return the store: in Redis if there is one, otherwise in this process.

    Args:
        seconds: time for which another replica can take over a call, in seconds.
        most: maximum number of bytes of the notes about ended sessions.
    """
    if redis is None:
        return LocalAnswers(most)
    assert isinstance(notifier, RedisNotifier)  # noqa: S101
    return RedisAnswers(redis, prefix, notifier, seconds, most=most)
