"""Tests of the log of events while Redis fails: which calls a replica takes over, ends or leaves alone."""

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock

import pytest
from redis.asyncio import Redis
from starlette.types import Message, Scope

from anyreplica.features.sessions import call_events
from anyreplica.features.sessions.call_events import CallEvents, OpenRound
from anyreplica.features.sessions.channel import ClientWatch, SessionChannel
from anyreplica.features.sessions.event_log import AdoptedCall, EventLog
from anyreplica.features.sessions.reply import SessionReply
from anyreplica.features.sessions.session import Session
from anyreplica.http.request_record import RECORD, new_record
from anyreplica.http.responses import ClientGone
from anyreplica.mcp.message import Request
from anyreplica.shared.notifier import Notifier, RedisNotifier
from conftest import until
from tests.replicas import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]

KEYS = ["a key of at least 32 characters for these tests"]
MINE = Session("mine", "2025-11-25", "owner", 1e12, "[{},{}]")
ROUND = OpenRound("tools/call", {"name": "ask"}, "2025-11-25", 0, "state", {})
MOST = 1 << 20
UNREACHABLE = AsyncMock(side_effect=OSError("away"))
"""A method of a store that cannot be reached."""


async def begun(log: EventLog, caller: str = "caller") -> CallEvents:
    """Begin the events of a call."""
    call = await log.begin(MINE, 7, caller)
    assert call is not None
    return call


async def given_up(log: EventLog) -> CallEvents:
    """Begin the events of a call that waits in a round, and give the call up."""
    call = await begun(log)
    await call.wait_in_round(ROUND)
    assert await call.hand_over()
    return call


@contextlib.asynccontextmanager
async def replicas(url: str, count: int = 2, **times: float) -> AsyncIterator[list[EventLog]]:
    """Event logs of replicas that share a Redis. They give no signs of life by themselves."""
    async with contextlib.AsyncExitStack() as stack:
        logs = []
        for _ in range(count):
            client = await stack.enter_async_context(Redis.from_url(url))
            notifier = RedisNotifier(client, "test:wakeups")
            await stack.enter_async_context(notifier.running())
            logs.append(EventLog(client, "test", notifier, 60, KEYS, MOST, **times))
        yield logs


async def resumed(log: EventLog, event: str, taken: list[AdoptedCall], most: int = 1) -> list[bytes]:
    """Resume a call, and return the first messages with data."""
    found: list[bytes] = []
    async with contextlib.aclosing(log.resume(MINE, event, "caller", taken.append)) as events:
        async for _, message in events:
            if message:
                found.append(message)
            if taken or len(found) >= most:
                break
    return found


def losing_first_reply(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of the store whose first call has its effect, but whose reply is lost."""
    calls = iter([True])

    async def lossy(*args: Any, **options: Any) -> Any:
        result = await method(*args, **options)
        if next(calls, False):
            raise OSError("the reply was lost")
        return result

    return lossy


async def test_a_take_over_with_a_lost_reply_is_repeated(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Redis makes a replica the owner of a call but the reply is lost, the replica takes over at its next check."""
    async with replicas(redis.url, poll_seconds=0.05) as (lost, other):
        call = await given_up(lost)
        monkeypatch.setattr(other.store, "take_over", losing_first_reply(other.store.take_over))
        taken: list[AdoptedCall] = []
        assert await asyncio.wait_for(resumed(other, call.first_id, taken), 30) == []
        assert (taken[0].identity, taken[0].round) == (7, ROUND)
        assert other.adopted == 1


async def test_two_readers_take_over_a_call_once(redis: RedisServer) -> None:
    """If a client resumes a call twice at the same replica, the replica takes it over once."""
    async with replicas(redis.url, poll_seconds=0.05) as (lost, other):
        for _ in range(20):
            call = await given_up(lost)
            taken: list[AdoptedCall] = []
            readers = [resumed(other, call.first_id, taken) for _ in range(4)]
            await asyncio.wait_for(asyncio.gather(*readers), 30)
            assert len(taken) == 1


async def test_a_client_that_leaves_ends_no_take_over(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the client closes its connection in the middle of a take-over, this replica still goes on with the call."""
    async with replicas(redis.url) as (lost, other):
        call = await given_up(lost)
        taking, go_on, take_over = asyncio.Event(), asyncio.Event(), other.store.take_over

        async def slow(*args: Any) -> str | None:
            taking.set()
            await go_on.wait()
            return await take_over(*args)

        monkeypatch.setattr(other.store, "take_over", slow)
        taken: list[AdoptedCall] = []
        resuming = asyncio.ensure_future(resumed(other, call.first_id, taken))
        await asyncio.wait_for(taking.wait(), 30)
        resuming.cancel()
        await asyncio.gather(resuming, return_exceptions=True)
        go_on.set()
        await asyncio.to_thread(until, lambda: bool(taken), "this replica has taken over the call")


async def test_a_result_waits_for_redis(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of a call without a connection is written when Redis is back, even after a long outage."""
    monkeypatch.setattr(call_events, "retry_for", lambda attempt, *_: attempt())
    async with replicas(redis.url, 1) as (log,):
        call = await begun(log)
        append = log.store.append
        monkeypatch.setattr(log.store, "append", UNREACHABLE)
        with pytest.raises(OSError, match="away"):
            await call.append(b"result", last=True, delivered=False)
        monkeypatch.setattr(log.store, "append", append)
        async with log.running():
            assert await asyncio.wait_for(resumed(log, call.first_id, []), 30) == [b"result"]
        assert log.late == []


async def test_a_call_that_ended_without_a_result_is_reported(redis: RedisServer) -> None:
    """If the result of a call could not be written, the client that resumes the call gets an error."""
    async with replicas(redis.url, 1) as (log,):
        call = await begun(log)
        call.end()
        (message,) = await asyncio.wait_for(resumed(log, call.first_id, []), 30)
        assert b"The replica that ran this call was lost" in message


async def test_a_client_that_leaves_while_its_call_begins_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the client leaves while the call begins its events, the replica forgets the call when its reply is over."""
    log = EventLog(None, "test", Notifier(), 60, KEYS, MOST)
    beginning, go_on, begin = asyncio.Event(), asyncio.Event(), log.store.begin

    async def slow(*args: Any) -> None:
        await begin(*args)
        beginning.set()
        await go_on.wait()

    class Channel(SessionChannel):
        """A channel that needs no session."""

        def __init__(self) -> None:
            self.version = "2025-11-25"

        async def begin_events(self, request: Request, scope: Scope) -> CallEvents | None:  # noqa: ARG002
            return await log.begin(MINE, 7, "caller")

        @contextlib.contextmanager
        def watching(self, request: Request, watch: ClientWatch) -> Iterator[None]:  # noqa: ARG002
            yield

    async def leave() -> Message:
        await beginning.wait()
        return {"type": "http.disconnect"}

    monkeypatch.setattr(log.store, "begin", slow)
    scope, asked = {"type": "http", RECORD: new_record({})}, Request(7, "tools/call", {}, 0, 0)
    reply = SessionReply(scope, leave, AsyncMock(), True, 60, asked, Channel())
    progress = asyncio.ensure_future(reply.event(b"{}"))  # a task of its own, as of a tool in a thread
    tool = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(ClientGone):
        await asyncio.wait_for(reply.wait_for(tool), 30)
    go_on.set()
    await asyncio.gather(progress, tool, return_exceptions=True)
    assert len(log.running_here) == 1, "the reply still exists"
    del reply, progress, tool
    gc.collect()
    assert len(log.running_here) == 0


async def test_after_an_outage_of_redis_no_running_call_is_ended(redis: RedisServer) -> None:
    """During an outage, no sign of life reaches Redis. A replica then waits before it believes that another is lost."""
    async with replicas(redis.url, poll_seconds=0.05) as (running, reader):
        call = await begun(running)
        resuming = asyncio.ensure_future(resumed(reader, call.first_id, []))
        await call.append(b"first", last=False, delivered=False)
        assert await asyncio.wait_for(resuming, 30) == [b"first"]
        resuming = asyncio.ensure_future(resumed(reader, call.first_id, [], 2))
        async with reader.running():  # signs of life reach Redis again, so the silence of the other one counts
            first, error = await asyncio.wait_for(resuming, 30)
        assert first == b"first"
        assert b"The replica that ran this call was lost" in error


async def test_a_replica_that_stalls_is_not_lost(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has just resumed its call waits for a replica that has been silent for a moment."""
    async with replicas(redis.url, poll_seconds=0.05, silent_seconds=0.5) as (running, reader), reader.running():
        monkeypatch.setattr(reader.store, "silence", AsyncMock(return_value=5.0))
        call = await begun(running)
        resuming = asyncio.ensure_future(resumed(reader, call.first_id, [], 2))
        await asyncio.to_thread(until, lambda: reader.resumed > 0, "the client has resumed its call")
        await call.append(b"first", last=False, delivered=False)
        began = time.monotonic()
        first, error = await asyncio.wait_for(resuming, 30)
        assert first == b"first"
        assert b"The replica that ran this call was lost" in error, "but a client does not wait for ever"
        assert time.monotonic() - began > 0.3


async def test_a_lost_connection_is_noted_later(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Redis is away while a client loses its connection, the client still has time to resume the call."""
    monkeypatch.setattr(call_events, "retry_for", lambda attempt, *_: attempt())
    async with replicas(redis.url, 1) as (log,):
        call = await begun(log)
        follow = log.store.follow
        monkeypatch.setattr(log.store, "follow", UNREACHABLE)
        for note in (call.lose_reader, call.has_reader):
            with pytest.raises(OSError, match="away"):
                await note()
        monkeypatch.setattr(log.store, "follow", follow)
        assert await call.has_reader()
        redis.ask("del", *redis.ask("keys", "test:call:*:followed").split())
        assert not await call.has_reader(), "the time of a client begins only once"


async def test_a_call_with_a_client_asks_redis_seldom(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comments on an event stream come every few seconds, but the replica keeps the events only now and then."""
    async with replicas(redis.url, 1) as (log,):
        call, keep = await begun(log), AsyncMock()
        monkeypatch.setattr(log.store, "keep", keep)
        for _ in range(3):
            await call.keep()
    assert keep.await_count == 1


async def test_a_round_that_could_not_be_noted_is_given_up(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Redis was away when a call began to wait, another replica still gets the round when this one drains."""
    monkeypatch.setattr(call_events, "retry_for", lambda attempt, *_: attempt())
    async with replicas(redis.url) as (draining, other):
        call = await begun(draining)
        monkeypatch.setattr(draining.store, "wait_in_round", UNREACHABLE)
        assert await call.wait_in_round(ROUND)
        assert await call.hand_over()
        taken: list[AdoptedCall] = []
        assert await asyncio.wait_for(resumed(other, call.first_id, taken), 30) == []
        assert taken[0].round == ROUND


async def test_a_question_is_written_once(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that the call waits for is written again after its reply was lost, but never twice."""
    async with replicas(redis.url, 1) as (log,):
        call = await begun(log)
        monkeypatch.setattr(log.store, "append", losing_first_reply(log.store.append))
        number = await call.append(b"question", last=False, delivered=False, needed=True)
        assert number == f"{call.first_id[:-2]}.1"
        assert await call.append(b"result", last=True, delivered=False) == f"{call.first_id[:-2]}.2"
        assert await resumed(log, call.first_id, [], 3) == [b"question", b"result"]


async def test_a_replica_can_own_a_call_twice(redis: RedisServer) -> None:
    """A replica that takes its own call over again writes its first event, although it wrote one before."""
    async with replicas(redis.url, 1) as (log,):
        call = await begun(log)
        await call.append(b"question", last=False, delivered=False)
        again = call_events.CallEvents(log, call.first_id.removesuffix(".0"), "7")
        await again.append(b"result", last=True, delivered=False)
        assert await resumed(log, call.first_id, [], 2) == [b"question", b"result"]


async def test_a_call_goes_on_if_redis_has_lost_it(redis: RedisServer) -> None:
    """If Redis has lost its data, a running call goes on, and its events have no ids."""
    async with replicas(redis.url, 1) as (log,):
        call = await begun(log)
        await call.wait_in_round(ROUND)
        redis.ask("flushall")
        assert await call.append(b"event", last=False, delivered=False) == ""
        assert await call.end_round()
        assert not await call.hand_over()
