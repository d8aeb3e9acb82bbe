"""One server in one round: the good client alone, beside the flood, and alone again."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.flood.cases import Case
from benchmarks.flood.crowd import Crowd
from benchmarks.flood.good_client import Call, GoodClient
from benchmarks.flood.memory import resident_mb
from benchmarks.flood.newcomers import newcomers
from benchmarks.flood.sizes import Sizes
from benchmarks.process import Process, ProcessError

PER_SECOND = 20
"""Calls of the good client."""
AT_ONCE = 16
"""Clients of the flood who wait for their reply at any time."""
NEWCOMERS = 10
"""Clients who come after the flood, as good as any."""
STEPS = 3
"""How often `measure` says what is next."""

_WARM_UP = 50
"""Clients and calls before anything counts, so that what a server makes but once is there."""


@dataclass(frozen=True)
class Moment:
    """What there was at some time; the numbers are sums since the beginning."""

    second: float
    mb: float
    let_in: int
    refused: int


@dataclass(frozen=True)
class Course:
    """What came of it."""

    moments: list[Moment]
    began: float
    """The flood, by `time.perf_counter`."""
    ended: float
    start: float
    """The first moment."""
    before_mb: float
    after_mb: float
    """When the flood ends."""
    let_in: int
    refused: int
    wrong: int
    """Clients of the flood with another reply than one of these, or none."""
    first_wrong: str
    cpu_seconds: float
    """Of the server during the flood."""
    calls: list[Call]
    """Of the good client."""
    turned_away: int
    """Of the newcomers."""
    full: bool
    """Whether the flood ended early, since the server had taken all the memory it may."""

    @property
    def seconds(self) -> float:
        """How long the flood was."""
        return self.ended - self.began

    @property
    def before(self) -> list[Call]:
        """The good client's calls before the flood."""
        return [call for call in self.calls if call.due < self.began]

    @property
    def during(self) -> list[Call]:
        """Those beside it."""
        return [call for call in self.calls if self.began <= call.due < self.ended]

    @property
    def after(self) -> list[Call]:
        """Those after it."""
        return [call for call in self.calls if call.due >= self.ended]


async def measure(case: Case, process: Process, sizes: Sizes, most_mb: float, step: Callable[[str], None]) -> Course:
    """Flood a server that is ready.

    Args:
        most_mb: resident memory at which the flood ends early.
        step: called with what is done next, `STEPS` times.

    Raises:
        LoadError, ProcessError: a client can't go on, or the server has ended.
    """
    step(f"{case.title}: before the flood")
    await newcomers(process.port, _WARM_UP, sessions=case.sessions)
    client = GoodClient(process.port, PER_SECOND, sessions=case.sessions)
    await client.enter()
    await client.warm_up(_WARM_UP)
    crowd = Crowd(process.port, sessions=case.sessions, own_connections=case.own_connections, at_once=AT_ONCE)
    moments: list[Moment] = []
    start = time.perf_counter()

    async def watch(seconds: float, most: float = math.inf) -> bool:
        looks, since = max(1, round(seconds / sizes.window)), time.perf_counter()
        for look in range(1, looks + 1):
            await asyncio.sleep(since + seconds * look / looks - time.perf_counter())
            if process.end:
                raise ProcessError(process.end)
            mb = resident_mb(process.pid)
            moments.append(Moment(time.perf_counter() - start, mb, crowd.let_in, crowd.refused))
            if mb >= most:
                return True
        return False

    calling = asyncio.ensure_future(client.keep_calling())
    flooding: asyncio.Future[None] | None = None
    try:
        await watch(sizes.before)
        step(f"{case.title}: the flood")
        before_mb, cpu, began = process.rss_mb(), process.cpu_seconds(), time.perf_counter()
        flooding = asyncio.ensure_future(crowd.run())
        full = await watch(sizes.flood, most_mb)
        crowd.stop()
        await flooding
        ended, cpu_seconds, after_mb = time.perf_counter(), process.cpu_seconds() - cpu, process.rss_mb()
        step(f"{case.title}: after the flood")
        await watch(sizes.after)
        client.stop()
        await calling
        turned_away = await newcomers(process.port, NEWCOMERS, sessions=case.sessions)
    finally:
        crowd.leave()
        for task in filter(None, (calling, flooding)):
            task.cancel()
        await asyncio.gather(*filter(None, (calling, flooding)), return_exceptions=True)
    return Course(
        moments=moments,
        began=began,
        ended=ended,
        start=start,
        before_mb=before_mb,
        after_mb=after_mb,
        let_in=crowd.let_in,
        refused=crowd.refused,
        wrong=crowd.wrong,
        first_wrong=crowd.first_wrong,
        cpu_seconds=cpu_seconds,
        calls=client.calls,
        turned_away=turned_away,
        full=full,
    )
