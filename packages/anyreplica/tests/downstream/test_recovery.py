"""A host that goes down and comes back."""

import asyncio
import time

import pytest

from anyreplica.downstream import CircuitOpen, DownstreamError, TimedOut, Unreachable
from tests.downstream.conftest import Misbehaving, opened

pytestmark = [pytest.mark.anyio, pytest.mark.servers]


async def test_calls_to_a_host_that_is_down_fail_at_once(host: Misbehaving, other: Misbehaving) -> None:
    """When a host is down, 200 calls to it fail at once, and calls to other hosts continue."""
    host.stop()
    async with opened(retries=0, breaker_seconds=60) as (downstream, hosts):
        for _ in range(5):
            with pytest.raises(Unreachable):
                await downstream.get(host.url("/ok"))
        for _ in range(200):
            with pytest.raises(CircuitOpen, match=f"Circuit open for {host.host} after"):
                await downstream.get(host.url("/ok"))

        async def failing() -> None:
            while True:
                with pytest.raises(CircuitOpen):
                    await downstream.get(host.url("/ok"))
                await asyncio.sleep(0)

        background = [asyncio.create_task(failing()) for _ in range(10)]
        for _ in range(50):
            assert (await downstream.get(other.url("/ok"))).status_code == 200
        assert not any(task.done() for task in background)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        outcomes = hosts.known[host.host].outcomes
        assert outcomes["open"] >= 200
        assert outcomes["error"] == 5


@pytest.mark.parametrize("how", ["stopped", "half-open", "500"])
async def test_recovery_is_found(host: Misbehaving, how: str) -> None:
    """A recovered host is found by one probe, soon after `breaker_seconds`."""
    async with opened(retries=0, breaker_failures=3, breaker_seconds=0.4, read_seconds=0.3) as (downstream, hosts):
        down = "/status/500" if how == "500" else "/ok"
        if how == "stopped":
            host.stop()
        elif how == "half-open":
            host.freeze()
        for _ in range(3):
            with pytest.raises(DownstreamError):
                await downstream.get(host.url(down))
        assert hosts.known[host.host].breaker.state == "open"
        if how == "stopped":
            host.start()
        elif how == "half-open":
            host.stop()
            host.start()
        deadline = time.monotonic() + 60
        while True:
            try:
                assert (await downstream.get(host.url("/ok"))).status_code == 200
                break
            except CircuitOpen:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
        assert hosts.known[host.host].breaker.state == "closed"
    assert host.seen("/ok") == 1


async def test_one_probe_at_a_time(host: Misbehaving) -> None:
    """Only one probe runs at a time, and only this call waits for a silent host."""
    async with opened(breaker_failures=1, breaker_seconds=0.2, read_seconds=0.2) as (downstream, _):
        with pytest.raises(DownstreamError):
            await downstream.get(host.url("/status/500"))
        for _ in range(3):
            await asyncio.sleep(0.25)
            calls = [downstream.get(host.url("/silent")) for _ in range(30)]
            kinds = [type(error) for error in await asyncio.gather(*calls, return_exceptions=True)]
            assert kinds.count(CircuitOpen) == 29
            assert kinds.count(TimedOut) == 1
    assert host.seen("/silent") == 3


async def test_no_retry_runs_into_an_open_breaker(host: Misbehaving) -> None:
    """A retry never runs into an open breaker: the caller gets the host's error, not `CircuitOpen`."""
    async with opened(breaker_failures=1) as (downstream, hosts):
        host.stop()
        with pytest.raises(Unreachable):
            await downstream.get(host.url("/ok"))
    assert hosts.known[host.host].retries == 0
