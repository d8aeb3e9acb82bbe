"""Tests of change events between replicas with a real Redis."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from redis.asyncio import Redis

from anyreplica.shared.events import RedisBus, decode, encode
from conftest import until
from tests.replicas import RedisServer

pytestmark = pytest.mark.anyio

LISTS: list[ServerEvent] = [ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()]
EVENTS = st.sampled_from(LISTS) | st.builds(ResourceUpdated, uri=st.text())
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
KINDS = st.sampled_from(["tools", "prompts", "resources", "resource"])
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=10)
ALMOST = st.fixed_dictionaries({"kind": KINDS}, optional={"uri": JSON, "other": JSON})


@given(EVENTS)
def test_a_decoded_event_equals_the_encoded_event(event: ServerEvent) -> None:
    """A decoded event equals the encoded event, with any URI."""
    assert decode(encode(event)) == event


@given(EVENTS, EVENTS)
def test_different_events_are_written_differently(one: ServerEvent, other: ServerEvent) -> None:
    """Different events have different encodings, and equal events have the same encoding."""
    assert (encode(one) == encode(other)) == (one == other)


@given(st.binary() | (JSON | ALMOST | ALMOST).map(orjson.dumps))
@example(b'{"kind": "resource", "uri": null}')
@example(b'{"kind": ["tools"]}')
@example(b"[" * 100_000)
def test_data_that_is_not_an_event_is_ignored(data: bytes) -> None:
    """If `decode` returns an event, its values are in the data, whatever another version publishes."""
    event = decode(data)
    if event is not None:
        said, written = orjson.loads(data), orjson.loads(encode(event))
        assert written == {name: said[name] for name in written}


@contextlib.asynccontextmanager
async def bus(server: RedisServer, channel: str = "test:events", seconds: float = 5) -> AsyncIterator[RedisBus]:
    """Run the event bus of a replica."""
    redis = Redis.from_url(server.url, socket_connect_timeout=2, socket_timeout=seconds)
    found = RedisBus(redis, channel)
    try:
        async with found.running():
            yield found
    finally:
        await redis.aclose()


async def eventually(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait until a condition holds, without blocking the event loop."""
    await asyncio.to_thread(until, condition, what, seconds)


def heard_by(found: RedisBus) -> list[ServerEvent]:
    """Subscribe to a bus, and return the events that it delivers from now on."""
    heard: list[ServerEvent] = []
    found.subscribe(heard.append)
    return heard


def event(number: int) -> ResourceUpdated:
    """Return an event with a number."""
    return ResourceUpdated(uri=f"orders://{number}")


@pytest.mark.needs("redis")
async def test_every_replica_hears_each_event_once_and_in_order(redis_server: RedisServer) -> None:
    """Each replica receives each event once and in order, including the replica that publishes."""
    async with bus(redis_server) as one, bus(redis_server) as other, bus(redis_server, "another") as stranger:
        heard = [heard_by(each) for each in (one, other, stranger)]
        events: list[ServerEvent] = [*LISTS, *(event(number) for number in range(100))]
        for each in events:
            await one.publish(each)
        await eventually(lambda: len(heard[0]) == len(heard[1]) == len(events), "both replicas have all events")
        await stranger.publish(event(-1))
        await eventually(lambda: bool(heard[2]), "the replica on the other channel has received its event")
        assert heard == [events, events, [event(-1)]]


@pytest.mark.needs("redis")
async def test_a_listener_hears_until_it_unsubscribes(redis_server: RedisServer) -> None:
    """A listener receives events until it unsubscribes. A listener that fails does not affect other listeners."""
    async with bus(redis_server) as one:
        heard: list[ServerEvent] = []

        def fail(_: ServerEvent) -> None:
            raise RuntimeError("not my day")

        end = one.subscribe(heard.append)
        one.subscribe(fail)
        heard_too = heard_by(one)
        await one.publish(event(1))
        await eventually(lambda: bool(heard_too), "the listener has received the first event")
        end()
        end()
        await one.publish(event(2))
        await eventually(lambda: len(heard_too) == 2, "the listener has received the second event")
        assert heard == [event(1)]


@pytest.mark.needs("redis")
async def test_junk_on_the_channel_is_skipped(redis_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """A replica logs and skips invalid data on the channel."""
    async with bus(redis_server) as one, Redis.from_url(redis_server.url) as stranger:
        heard = heard_by(one)
        for junk in (b"", b"\xff", b"[]", b"{}", b'{"kind": "weather"}', b'"tools"', b"[" * 10_000):
            await stranger.publish("test:events", junk)
        await one.publish(event(1))
        await eventually(lambda: bool(heard), "the listener has received the event after the invalid data")
        assert heard == [event(1)]
    skipped = [record for record in caplog.records if "not a change event" in record.message]
    assert len(skipped) == 7
    assert all(len(record.message) < 300 for record in skipped)


@pytest.mark.needs("redis")
async def test_silence_keeps_the_connection(redis_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """A channel without events keeps its connection for longer than the time limit for answers."""
    with caplog.at_level(logging.WARNING):
        async with bus(redis_server, seconds=0.05) as one:
            (before,) = redis_server.ask("client", "list", "type", "pubsub").splitlines()
            quiet_until = time.monotonic() + 0.5
            await eventually(lambda: time.monotonic() > quiet_until, "ten times the limit for an answer has passed")
            (after,) = redis_server.ask("client", "list", "type", "pubsub").splitlines()
            assert after.split()[0] == before.split()[0]
            heard = heard_by(one)
            await one.publish(event(1))
            await eventually(lambda: bool(heard), "the listener has received the event after the silence")
    assert caplog.records == []


@pytest.mark.needs("redis")
async def test_without_redis_own_listeners_hear(redis_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """Without Redis, also at its start, a replica notifies its own listeners once, and the log says so.

    When Redis is back, all listeners receive all events again (`any_replica/test_redis.py` shows it for replicas).
    """
    async with asyncio.timeout(60), bus(redis_server) as one, bus(redis_server) as other:
        heard, heard_too = heard_by(one), heard_by(other)
        redis_server.kill()
        await one.publish(event(1))
        assert (heard, heard_too) == ([event(1)], [])
        async with bus(redis_server) as late:
            heard_late = heard_by(late)
            await late.publish(event(2))
            assert heard_late == [event(2)]
        redis_server.start()
        while event(3) not in heard_too:
            await one.publish(event(3))
            await asyncio.sleep(0.05)
        await one.publish(event(4))
        await eventually(lambda: heard[-1] == heard_too[-1] == event(4), "both listeners have received the last event")
    assert "go to the listeners of this replica only" in caplog.text
    lost = "Redis can't be reached: this replica gets no change events of other replicas"
    assert caplog.text.count(lost) == 3, "one line for each of the three replicas, although they try again and again"


@pytest.mark.needs("redis")
async def test_own_listeners_hear_before_the_channel_is_connected_again(redis_server: RedisServer) -> None:
    """A replica that can publish, but does not receive yet, notifies the listeners of all replicas, also its own."""
    async with asyncio.timeout(60), bus(redis_server) as other, Redis.from_url(redis_server.url) as redis:
        one = RedisBus(redis, "test:events")
        heard, heard_too = heard_by(one), heard_by(other)
        await one.publish(event(1))
        assert heard == [event(1)]
        await eventually(lambda: heard_too == [event(1)], "the other replica has received the event")
