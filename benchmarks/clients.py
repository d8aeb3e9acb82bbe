"""One HTTP client of Python, sending as fast as it can: what it would give a load test that were built on it.

python -m benchmarks.clients httpx URL TOOL CONNECTIONS SECONDS
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import orjson
import uvloop
from mcp_swarm.loadtest.latency import percentile

from benchmarks.senders import ARGUMENTS, Figures, Job, split

Call = Callable[[], Awaitable[bytes]]
"""Sends the request; gives the body of a 200."""


def main() -> int:
    """Send, and print the figures as JSON."""
    name, url, tool, connections, seconds = sys.argv[1:]
    job = Job(url, tool, int(connections), int(seconds), core=0, folder=Path())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.write(json.dumps(asdict(runner.run(_measure(name, job)))) + "\n")
    return 0


async def _measure(name: str, job: Job) -> Figures:
    took: list[float] = []
    async with _CLIENTS[name](job) as call:
        await _checked(call)
        began, cpu = time.perf_counter(), time.process_time()
        end = began + job.seconds

        async def caller() -> None:
            while (sent := time.perf_counter()) < end:
                await _checked(call)
                took.append(time.perf_counter() - sent)

        await asyncio.gather(*(caller() for _ in range(job.connections)))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    took.sort()
    return Figures(
        rate=len(took) / seconds,
        p50=1000 * percentile(took, 50),
        p99=1000 * percentile(took, 99),
        cpu_us=1e6 * cpu / len(took),
    )


async def _checked(call: Call) -> None:
    reply = await call()
    result = orjson.loads(reply)["result"]
    if result["content"][0]["text"] != ARGUMENTS["message"] or result["isError"]:
        raise RuntimeError(f"wrong reply: {reply.decode()}")


@asynccontextmanager
async def _httpx(job: Job) -> AsyncIterator[Call]:
    headers, body = split(job.request.payload)
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=job.connections), timeout=30) as session:

        async def call() -> bytes:
            return (await session.post(job.url, content=body, headers=headers)).raise_for_status().content

        yield call


@asynccontextmanager
async def _aiohttp(job: Job) -> AsyncIterator[Call]:
    headers, body = split(job.request.payload)
    aiohttp: Any = importlib.import_module("aiohttp")  # not among what this project needs
    connector = aiohttp.TCPConnector(limit=job.connections)
    async with aiohttp.ClientSession(connector=connector, raise_for_status=True) as session:

        async def call() -> bytes:
            async with session.post(job.url, data=body, headers=headers) as reply:
                found: bytes = await reply.read()
                return found

        yield call


_CLIENTS = {"httpx": _httpx, "aiohttp": _aiohttp}


if __name__ == "__main__":
    sys.exit(main())
