"""Tests of a cached tool with a clock that the test moves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from anyreplica.features.cache import cached_tool as module
from anyreplica.features.cache.cache import Cache
from anyreplica.features.cache.cached_tool import CachedTool
from anyreplica.features.cache.policy import CachePolicy


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        """Return the time in seconds."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the cached tools."""
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


class Tool:
    """A tool that returns the number of its run when the test allows it to end."""

    def __init__(self, ttl: float, stale: float) -> None:
        self.runs = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

        async def run(*, key: str) -> int:
            self.runs += 1
            number = self.runs
            await self.may_end.wait()
            if number == 3:
                raise ValueError("the third run")
            return number

        policy = CachePolicy(ttl=ttl, scope="public", stale=stale)
        kept = CachedTool(run, Cache(10_000), policy, name="run", version=None, seconds=5)
        self.call: Callable[..., Awaitable[Any]] = kept.function()


def test_a_result_is_fresh_then_stale_then_expired(clock: Clock) -> None:
    """A fresh result is used again, and a stale result is served while the tool renews it."""

    async def scenario() -> None:
        tool = Tool(ttl=10, stale=10)
        assert [await tool.call(key="a") for _ in range(2)] == [1, 1]
        clock.now += 15
        assert await tool.call(key="a") == 1
        await asyncio.sleep(0)
        assert await tool.call(key="a") == 2
        assert tool.runs == 2

    asyncio.run(scenario())


def test_a_call_after_expiry_waits_for_the_renewal(clock: Clock) -> None:
    """After a result has expired, a call waits for a renewal that another call has started.

    The call also gets the renewal's failure.
    """

    async def scenario() -> None:
        tool = Tool(ttl=10, stale=10)
        assert await tool.call(key="a") == 1
        for expected in (2, "the third run"):
            tool.may_end.clear()
            clock.now += 15
            assert await tool.call(key="a") in (1, 2)
            clock.now += 15
            waiting = asyncio.ensure_future(tool.call(key="a"))
            await asyncio.sleep(0)
            assert not waiting.done()
            tool.may_end.set()
            answers = await asyncio.gather(waiting, return_exceptions=True)
            assert str(answers[0]) == str(expected)
        assert tool.runs == 3

    asyncio.run(scenario())


def test_the_first_caller_may_disconnect(clock: Clock) -> None:
    """If the call that started a run is cancelled, the other calls still get the run's result."""

    async def scenario() -> None:
        tool = Tool(ttl=10, stale=0)
        tool.may_end.clear()
        first, second = (asyncio.ensure_future(tool.call(key="a")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        tool.may_end.set()
        assert await second == 1
        assert first.cancelled()
        assert tool.runs == 1

    asyncio.run(scenario())
