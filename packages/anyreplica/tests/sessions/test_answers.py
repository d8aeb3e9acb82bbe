"""Tests of the store for clients' answers: in any order of events, it loses no answer and accepts no wrong answer."""

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import from_json
from redis.asyncio import Redis

from anyreplica.features.sessions.answers import Answers, Delivery, LocalAnswers, RedisAnswers, SessionEnded
from anyreplica.features.sessions.call_events import Question
from anyreplica.features.sessions.client_requests import ClientRequests
from anyreplica.features.sessions.session import Session, WaitingCall, WaitingCalls
from anyreplica.http.limits import InFlight, Memory
from anyreplica.shared.notifier import RedisNotifier
from tests.replicas import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]

MINE = Session("mine", "2025-11-25", "owner", 1e12, '[{"name": "test", "version": "1"}, {}]')
EVENTS = st.lists(st.sampled_from(["right", "wrong", "wait", "forget"]), max_size=8)


@contextlib.asynccontextmanager
async def two_replicas(url: str, poll_seconds: float = 5.0) -> AsyncIterator[list[RedisAnswers]]:
    """Two replicas that share a Redis."""
    async with contextlib.AsyncExitStack() as stack:
        replicas = []
        for _ in range(2):
            client = await stack.enter_async_context(Redis.from_url(url))
            notifier = RedisNotifier(client, "test:wakeups")
            await stack.enter_async_context(notifier.running())
            replicas.append(RedisAnswers(client, "test", notifier, poll_seconds=poll_seconds))
        yield replicas


async def check(asking: Answers, other: Answers, events: list[str]) -> None:
    """Send events to the store and compare it with a model, whose state is waiting, answered, late or gone."""
    identity = secrets.token_hex(8)
    async with contextlib.AsyncExitStack() as stack:
        wait = await stack.enter_async_context(asking.waiting(identity, "mine", 5))
        state, first = "waiting", b""
        for number, event in enumerate(events):
            answer = b"%d" % number
            if event == "right":
                expected = {"waiting": "accepted", "late": "late"}.get(state, "unknown")
                assert await other.deliver(identity, "mine", answer) == expected
                if state == "waiting":
                    state, first = "answered", answer
            elif event == "wrong":
                assert await other.deliver(identity, "another", answer) == "unknown"
            elif event == "forget":
                await stack.aclose()
                state = {"waiting": "late", "answered": "gone"}.get(state, state)
            elif state == "answered":
                assert await wait(1) == first
            elif state == "waiting":
                with pytest.raises(TimeoutError):
                    await wait(0)


@given(EVENTS)
async def test_any_order_in_one_replica(events: list[str]) -> None:
    """The store in memory behaves like the model."""
    alone = LocalAnswers()
    await check(alone, alone, events)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS)
async def test_any_order_in_two_replicas(redis: RedisServer, events: list[str]) -> None:
    """The store in Redis behaves like the model, while one replica asks and another one gets the answers."""
    async with two_replicas(redis.url) as (asking, other):
        await check(asking, other, events)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["right", "wrong", "wait", "drain"]), max_size=8))
async def test_any_order_across_drains(redis: RedisServer, events: list[str]) -> None:
    """A question of a round moves from replica to replica. Its first right answer reaches whichever replica waits."""
    async with two_replicas(redis.url) as replicas:
        turns = itertools.cycle([replicas, replicas[::-1]])
        identity, first, (asking, other) = secrets.token_hex(8), b"", next(turns)
        async with contextlib.AsyncExitStack() as stack:
            wait = await stack.enter_async_context(asking.waiting(identity, "mine", 5, of_round=True))
            for number, event in enumerate(events):
                answer = b"%d" % number
                if event == "right":
                    assert await other.deliver(identity, "mine", answer) == ("unknown" if first else "accepted")
                    first = first or answer
                elif event == "wrong":
                    assert await other.deliver(identity, "another", answer) == "unknown"
                elif event == "drain":
                    await stack.aclose()
                    asking, other = next(turns)
                    wait = await stack.enter_async_context(asking.waiting(identity, "mine", 5, of_round=True))
                elif first:
                    assert await wait(1) == first
                else:
                    with pytest.raises(TimeoutError):
                        await wait(0)


@pytest.mark.parametrize("hears", [True, False])
async def test_an_answer_wakes_the_call(redis: RedisServer, hears: bool) -> None:
    """The answer wakes the waiting call. A call whose replica hears no wake-ups finds it at its next look."""
    async with two_replicas(redis.url, poll_seconds=1000) as (asking, other), Redis.from_url(redis.url) as client:
        deaf = RedisAnswers(client, "test", RedisNotifier(client, "test:nothing"), poll_seconds=0.1)
        async with (asking if hears else deaf).waiting(f"hears-{hears}", "mine", 20) as wait:
            waiting = asyncio.ensure_future(wait(1000))
            await asyncio.sleep(0)  # the call begins to wait
            assert await other.deliver(f"hears-{hears}", "mine", b"answer") == "accepted"
            assert await asyncio.wait_for(waiting, 30) == b"answer"


async def test_a_lost_reply_of_redis_loses_no_answer(redis: RedisServer) -> None:
    """A replica that does not know whether it has handed over an answer tries again with the same answer."""
    async with two_replicas(redis.url) as (asking, other), asking.waiting("again", "mine", 5) as wait:
        assert await other.deliver("again", "mine", b"answer") == "accepted"
        assert await other.deliver("again", "mine", b"answer") == "unknown"
        assert await other.deliver("again", "mine", b"another", again=True) == "unknown"
        assert await other.deliver("again", "mine", b"answer", again=True) == "accepted"
        assert await wait(1) == b"answer"
        lossy = other.deliver
        tries: list[bool] = []

        async def losing_first_reply(*args: Any, again: bool = False) -> Delivery:
            delivery = await lossy(*args, again=again)
            tries.append(again)
            if not again:
                raise OSError("the reply was lost")
            return delivery

        other.deliver = losing_first_reply  # type: ignore[method-assign, assignment]
        requests = ClientRequests(other, 5)
        async with asking.waiting("lossy", "mine", 5) as wait_again:
            await requests.answer(MINE, "lossy", {"result": {}})
            assert await wait_again(1) == b'{"result":{}}'
        assert tries == [False, True]


async def test_a_slow_client_learns_that_a_request_is_given_up() -> None:
    """The client gets `notifications/cancelled` if a scope of the tool ends its request, and with it each `await`."""
    written: list[dict[str, Any]] = []
    asked = asyncio.Event()

    async def write(message: bytes) -> None:
        await asyncio.sleep(0)
        written.append(from_json(message))
        asked.set()

    every = WaitingCalls(InFlight(10), Memory(1 << 20), 10)
    call, ping = WaitingCall(every, "caller", {}, 0), Question("1", "ping", None)
    async with anyio.create_task_group() as group:
        group.start_soon(ClientRequests(LocalAnswers(), 60).send, MINE, write, call, ping, 60)
        await asked.wait()
        group.cancel_scope.cancel()
    assert [each["method"] for each in written] == ["ping", "notifications/cancelled"]
    assert written[1]["params"]["requestId"] == "1"


async def can_wait(answers: Answers, session: str) -> bool:
    """Return whether a request of a session can wait for an answer."""
    try:
        async with answers.waiting("question", session, 5):
            return True
    except SessionEnded:
        return False


async def test_an_ended_session_cannot_be_asked(redis: RedisServer) -> None:
    """After the end of a session, no replica expects an answer from it."""
    async with two_replicas(redis.url) as (asking, other):
        assert await can_wait(asking, "ended")
        assert not await asking.has_ended("ended")
        assert await other.end("ended", time.time() + 60, "caller") == ""
        assert await asking.has_ended("ended")
        assert not await can_wait(asking, "ended")
    alone = LocalAnswers()
    assert await alone.end("ended", time.time() + 60, "caller") == ""
    assert not await can_wait(alone, "ended")


async def test_every_key_expires(redis: RedisServer) -> None:
    """No key stays in Redis for ever."""
    async with two_replicas(redis.url) as (asking, other):
        async with asking.waiting("late", "mine", 5):
            pass
        async with asking.waiting("accepted", "mine", 5), asking.waiting("waiting", "mine", 5):
            await other.deliver("accepted", "mine", b"answer")
            await other.end("mine", time.time() + 60, "caller")
            keys = redis.ask("keys", "*").split()
            assert len(keys) >= 4
            for key in keys:
                assert 0 < int(redis.ask("ttl", key)) <= 600, key


async def test_the_memory_of_a_replica_is_limited() -> None:
    """A replica without Redis remembers a limited number of late requests: it forgets the oldest ones first."""
    alone = LocalAnswers()
    for number in range(10_050):
        async with alone.waiting(f"{number}", "mine", 5):
            pass
    assert await alone.deliver("0", "mine", b"") == "unknown"
    assert await alone.deliver("10049", "mine", b"") == "late"


async def test_a_taken_answer_does_not_stay(redis: RedisServer) -> None:
    """An answer is deleted with its request or its round. Giving it again then still counts as taken."""
    async with two_replicas(redis.url) as (asking, other):
        async with asking.waiting("once", "staying", 5) as wait:
            assert await other.deliver("once", "staying", b"answer") == "accepted"
            assert await wait(1) == b"answer"
        assert redis.ask("keys", "test:client_answer:once") == ""
        assert await other.deliver("once", "staying", b"answer", again=True) == "accepted"
        assert await other.deliver("once", "staying", b"answer") == "unknown"
        async with asking.waiting("round", "staying", 5, of_round=True) as wait:
            assert await other.deliver("round", "staying", b"answer") == "accepted"
            assert await wait(1) == b"answer"
        async with other.waiting("round", "staying", 5, of_round=True) as wait:
            assert await wait(1) == b"answer", "another replica has taken over the call"
        async with asking.waiting("never", "staying", 5, of_round=True):
            pass
        await other.forget(("round", "never"), "staying")
        assert redis.ask("keys", "test:client_answer:round") == ""
        assert await other.deliver("never", "staying", b"answer") == "late"
