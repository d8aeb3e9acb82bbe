"""Tests of a cached tool with a clock that the test moves."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, SecretStr

from anyreplica.features.cache import cache as module
from anyreplica.features.cache.cache import Cache, CachedTool
from anyreplica.features.cache.policy import CachePolicy

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock of the cached tools, which the test moves."""
    made = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: made.now))
    return made


class Tool:
    """A tool that returns the number of its run when the test allows it to end."""

    def __init__(self, ttl: float, stale: float, scope: Literal["caller", "public"] = "public") -> None:
        self.runs = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

        async def run(*, key: Any) -> int:
            self.runs += 1
            number = self.runs
            await self.may_end.wait()
            if number == 3:
                raise ValueError("the third run")
            return number

        policy = CachePolicy(ttl=ttl, scope=scope, stale=stale)
        self.cache = Cache(10_000, most_runs=2)
        kept = CachedTool(run, self.cache, policy, name="run", version=None, seconds=5)
        self.call: Callable[..., Awaitable[Any]] = kept.function()


async def test_a_result_is_fresh_then_stale_then_expired(clock: SimpleNamespace) -> None:
    """A stale result is served during its renewal. After its expiry, calls wait for the renewal or its failure."""
    tool = Tool(ttl=10, stale=10)
    assert [await tool.call(key="a") for _ in range(2)] == [1, 1]
    for stale, renewed in ((1, "2"), (2, "the third run")):
        tool.may_end.clear()
        clock.now += 15
        assert await tool.call(key="a") == stale
        clock.now += 15
        waiting = asyncio.ensure_future(tool.call(key="a"))
        await asyncio.sleep(0)
        assert not waiting.done()
        tool.may_end.set()
        answers = await asyncio.gather(waiting, return_exceptions=True)
        assert str(answers[0]) == renewed
        assert tool.runs == stale + 1


async def test_the_first_caller_may_disconnect(clock: SimpleNamespace) -> None:
    """If the call that started a run is cancelled, the other calls still get the run's result."""
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


class _Login(BaseModel):
    password: SecretStr


class _Other(BaseModel):
    password: SecretStr


class _Pair(NamedTuple):
    secret: SecretStr


_ONE, _TWO = SecretStr("one"), SecretStr("two")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (_ONE, _TWO),
        (_Login(password=_ONE), _Login(password=_TWO)),
        (_Login(password=_ONE), _Other(password=_ONE)),
        ([_Login(password=_ONE)], [_Login(password=_TWO)]),
        (_Pair(_ONE), _Pair(_TWO)),
        ({_ONE}, {_TWO}),
        (float("nan"), None),
        (float("inf"), float("-inf")),
    ],
    ids=repr,
)
async def test_different_arguments_have_different_results(first: Any, second: Any) -> None:
    """JSON for people hides secrets, and has no word for NaN. The key of the cache tells them apart."""
    tool = Tool(ttl=10, stale=0)
    assert [await tool.call(key=key) for key in (first, first, second)] == [1, 1, 2]


async def test_outside_of_a_request_no_caller_gets_a_cached_result() -> None:
    """A task has no caller, so its result must not reach one."""
    tool = Tool(ttl=10, stale=0, scope="caller")
    assert [await tool.call(key="a") for _ in range(2)] == [1, 2]
    assert not tool.cache.memory


async def test_clients_that_leave_do_not_add_runs() -> None:
    """Beyond a number of runs that go on without their call, a run ends with its call."""
    tool = Tool(ttl=10, stale=0)
    tool.may_end.clear()
    calls = [asyncio.ensure_future(tool.call(key=number)) for number in range(4)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    assert tool.runs == 4
    assert len(tool.cache.runs) == 2
    tool.may_end.set()
    assert await tool.call(key=3) == 5
