"""Tests of outages of Redis, without a Redis: the policies, and the breaker, which opens, probes and closes."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import pytest
from redis.exceptions import ConnectionError as LostError

from anyreplica.http.responses import Refused
from anyreplica.shared.outage import Outage, RedisBreaker

pytestmark = pytest.mark.anyio


@pytest.fixture
def outage() -> Outage:
    """A consequence of an outage."""
    return Outage(logging.getLogger("anyreplica.test"), "nothing is stored")


def lost() -> None:
    """Fail as a command to a lost Redis does."""
    raise LostError("Connection refused")


def test_required_work_fails_with_its_own_error(outage: Outage) -> None:
    """The error gets the reason. Errors of other kinds stay as they are."""
    with pytest.raises(Refused, match="Connection refused"), outage.required(Refused.retry_later):
        lost()
    assert outage.is_on
    with pytest.raises(ValueError, match="own"), outage.required(Refused.retry_later):
        raise ValueError("own")


def test_best_effort_goes_on(outage: Outage) -> None:
    """The block ends at the failed command, and the code after it runs."""
    done = []
    with outage.best_effort():
        lost()
        done.append("inside")
    done.append("after")
    assert done == ["after"]
    assert outage.is_on


def test_an_outage_has_two_lines_in_the_log(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    """A busy replica that loses Redis does not fill its log."""
    for _ in range(3):
        with outage.best_effort():
            lost()
    for _ in range(3):
        with outage.best_effort():
            pass
    assert [record.getMessage() for record in caplog.records] == [
        "Redis can't be reached: nothing is stored: Connection refused",
        "Redis can be reached again. Until now: nothing is stored",
    ]
    assert not outage.is_on


def test_a_block_that_began_before_the_outage_does_not_end_it(outage: Outage) -> None:
    """For example, an event stream that was open before the outage may end during the outage."""
    with outage.best_effort(), outage.best_effort():
        lost()
    assert outage.is_on


async def turns(condition: Callable[[], bool]) -> None:
    """Let other tasks run until a condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  # the tasks of the test tell nobody
            await asyncio.sleep(0)


class Silent:
    """A Redis that answers a probe when the test says so."""

    def __init__(self) -> None:
        self.probes = 0
        self.at_once = 0
        self.most_at_once = 0
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def probe(self) -> bool:
        """Wait for the answer that the test gives."""
        self.probes += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self.answer
        finally:
            self.at_once -= 1
            self.answer = asyncio.get_running_loop().create_future()


async def test_one_probe_at_a_time_closes_the_breaker() -> None:
    """However often commands fail, one probe runs at a time. After one without success the next one follows."""
    redis = Silent()
    found = RedisBreaker("Redis", redis.probe, pause_seconds=0)
    for _ in range(100):
        found.open()
        await asyncio.sleep(0)
    assert (found.is_open, redis.probes) == (True, 1)
    redis.answer.set_result(False)
    await turns(lambda: redis.probes == 2)
    assert (found.is_open, redis.at_once) == (True, 1)
    redis.answer.set_result(True)
    await turns(lambda: not found.is_open)
    assert (redis.probes, redis.most_at_once) == (2, 1)
    found.open()
    assert (found.is_open, redis.most_at_once) == (True, 1)
    await found.stop()


async def test_an_opening_breaker_ends_all_waits() -> None:
    """All waits end at once when the breaker opens. Waits that have ended before do no harm."""
    redis = Silent()
    found = RedisBreaker("Redis", redis.probe)
    ended: list[str] = []

    async def wait(seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds) as limit:
                with found.ending(limit):
                    await asyncio.Event().wait()
        except TimeoutError:
            ended.append("ended")

    tasks = [asyncio.ensure_future(wait(seconds)) for seconds in [0] * 5 + [1000] * 200]
    cancelled = [asyncio.ensure_future(wait(1000)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in cancelled:
        task.cancel()
    found.open()
    await asyncio.gather(*tasks)
    assert len(ended) == 205
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*cancelled)
    await found.stop()


async def test_the_probe_outlives_the_command_that_opened_the_breaker() -> None:
    """The end or the cancellation of the request that opened the breaker does not end the probe. `stop` does."""
    redis = Silent()
    found = RedisBreaker("Redis", redis.probe)

    async def request() -> None:
        found.open()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(request())
    await turns(lambda: redis.probes == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (found.is_open, redis.at_once) == (True, 1)
    await found.stop()
    assert (found.is_open, redis.at_once) == (False, 0)
    await found.stop()
