"""A caller: calls, checked and timed."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import fastmcp
from mcp import Client
from mcp_swarm.loadtest.latency import percentile

from benchmarks.load import LoadError
from benchmarks.wire import Family

Call = Callable[[], Awaitable[None]]
"""One call.

Raises:
    LoadError: a wrong reply.
"""


def echo(client: "Client | fastmcp.Client[Any]", family: Family, message: str) -> Call:
    """A call of the echo by a client that is connected.

    Raises:
        LoadError: it speaks another version of the protocol.
    """
    if client.protocol_version != family.value:
        raise LoadError(f"the client speaks {client.protocol_version}, not {family.value}")

    async def call() -> None:
        result = await client.call_tool("echo", {"message": message})
        if result.is_error or result.structured_content != {"result": message}:
            raise LoadError(f"wrong reply: {str(result)[:200]}")

    return call


async def timed(call: Call, count: int) -> list[float]:
    """Call so often, one call after the other; returns the milliseconds that each took, the least first.

    Raises:
        LoadError: a wrong reply.
    """
    took = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        took.append(1000 * (time.perf_counter() - began))
    return sorted(took)


def latencies(took: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles of ordered milliseconds."""
    return {"mean": mean(took)} | {f"p{percent}": percentile(took, percent) for percent in (50, 95, 99)}


def mean(took: Sequence[float]) -> float:
    """The mean of one value or more."""
    return math.fsum(took) / len(took)
