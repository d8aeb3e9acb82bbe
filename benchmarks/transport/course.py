"""What is measured of one transport in one round."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mcp_swarm.loadtest.latency import percentile

from benchmarks.load import LoadError
from benchmarks.scenarios import MESSAGE
from benchmarks.transport.caller import Call, echo, latencies, mean, timed
from benchmarks.transport.place import Place
from benchmarks.wire import Family

SIZES = {100: "100 B", 1_000: "1 kB", 10_000: "10 kB", 100_000: "100 kB", 1_000_000: "1 MB"}
"""Bytes of a message, and how they are told."""

_PATIENCE = 120.0
_SLOWEST = 0.05
"""Seconds that a call may take."""
_WARM_UP = 10
_FEWEST = 3
_MORE = 10
"""Times as many calls by hand: they are so short that fewer would be at the mercy of a single pause."""


@dataclass(frozen=True)
class Course:
    """How much is measured."""

    calls: int
    """Of each client."""
    clients: int
    """At once."""

    async def run(self, place: Place, family: Family, *, whole: bool) -> dict[str, float]:
        """The figures by name: times in ms, rates per second, memory in MB, CPU time in µs a call.

        Args:
            whole: whether messages of several sizes, FastMCP's client and calls by hand are measured, too.

        Raises:
            LoadError: a wrong reply, or it takes far too long.
            Exception: whatever a client meets.
        """
        seconds = _PATIENCE + _SLOWEST * self.calls * (self.clients + _MORE)
        try:
            async with asyncio.timeout(seconds):
                figures = await self._by_sdk(place, family, sized=whole)
                if whole:
                    figures |= await self._by_fastmcp(place, family)
                    figures |= await self._by_hand(place, family)
        except TimeoutError:
            raise LoadError(f"not done within {seconds:,.0f} s") from None
        return figures

    async def _by_sdk(self, place: Place, family: Family, *, sized: bool) -> dict[str, float]:
        """One client from the start of the server on; then the others, all at once; then larger messages."""
        figures: dict[str, float] = {}
        connects: list[float] = []
        calls: list[Call] = []
        async with AsyncExitStack() as stack:
            while len(calls) < (1 if place.shared else self.clients):
                began = time.perf_counter()
                client = await stack.enter_async_context(place.client(family))
                connects.append(1000 * (time.perf_counter() - began))
                call = echo(client, family, MESSAGE)
                await call()
                if not calls:
                    figures["start"] = 1000 * (place.started + time.perf_counter() - began)
                    figures |= await self._alone(place, call)
                calls.append(call)
            if not place.shared:
                figures["connect"] = percentile(sorted(connects), 50)
            figures |= await self._at_once(place, calls * self.clients if place.shared else calls)
            for size in SIZES if sized else ():  # last: what they leave in memory is nobody's who sends none
                took = await timed(echo(client, family, "x" * size), max(_FEWEST, self.calls // 5))
                figures[f"size_{size}"] = percentile(took, 50)
        return figures

    async def _alone(self, place: Place, call: Call) -> dict[str, float]:
        await timed(call, _WARM_UP)
        cpu = place.cpu_seconds()
        figures = latencies(await timed(call, self.calls)) | _cost(place, cpu, self.calls)
        return figures | ({"rss": place.rss_mb()} if place.pids() else {})

    async def _at_once(self, place: Place, calls: list[Call]) -> dict[str, float]:
        began = time.perf_counter()
        rows = await asyncio.gather(*(timed(call, self.calls) for call in calls))
        took = [each for row in rows for each in row]
        figures = {"mean_n": mean(took), "rate_n": len(took) / (time.perf_counter() - began)}
        return figures | ({"rss_n": place.rss_mb()} if place.pids() else {})

    async def _by_fastmcp(self, place: Place, family: Family) -> dict[str, float]:
        async with place.fastmcp_client(family) as client:
            return await _compared(place, echo(client, family, MESSAGE), self.calls, "fastmcp")

    async def _by_hand(self, place: Place, family: Family) -> dict[str, float]:
        if (connection := place.by_hand(family)) is None:
            return {}
        async with connection as hand:
            return await _compared(place, hand.call, self.calls * _MORE, "hand")


async def _compared(place: Place, call: Call, count: int, name: str) -> dict[str, float]:
    await timed(call, _WARM_UP)
    cpu = place.cpu_seconds()
    figures = {"p50": percentile(await timed(call, count), 50)} | _cost(place, cpu, count)
    return {f"{name}_{figure}": value for figure, value in figures.items()}


def _cost(place: Place, cpu_before: float, calls: int) -> dict[str, float]:
    """What a call has cost the server since then, where it has processes of its own."""
    return {"cpu": 1e6 * (place.cpu_seconds() - cpu_before) / calls} if place.pids() else {}
