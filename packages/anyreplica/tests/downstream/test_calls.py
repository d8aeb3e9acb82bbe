"""Calls to a host that misbehaves: the error that the caller gets, and the retries."""

import asyncio
import logging
import re

import pytest
from fastmcp.exceptions import ToolError

from anyreplica.components import call_limits
from anyreplica.downstream import BadStatus, DownstreamError, Limited, TimedOut, Unreachable, Unusable
from anyreplica.features.downstream.hosts import MOST, Hosts
from anyreplica.features.downstream.http_client import ApiCallOptions
from anyreplica.features.downstream.settings import DownstreamSettings
from conftest import free_port
from tests.downstream.conftest import Misbehaving, opened

pytestmark = [pytest.mark.anyio, pytest.mark.servers]


async def test_an_answer(host: Misbehaving) -> None:
    """A call returns the reply of httpx2, has no cookie of an earlier call, and asks for an uncompressed reply."""
    async with opened() as (downstream, hosts):
        reply = await downstream.get(host.url("/ok"), params={"page": 2})
        assert reply.json() == {"fine": True}
        for _ in range(2):
            told = (await downstream.post(host.url("/echo"), json=[1], headers={"X-A": "b"})).text.lower()
            assert "accept-encoding: identity" in told
            assert "x-a: b" in told
            assert "cookie" not in told
        state = hosts.known[host.host]
        assert state.outcomes == {"ok": 3, "error": 0, "timeout": 0, "open": 0, "limited": 0}
        assert (state.breaker.state, state.running, state.waiting, state.retries) == ("closed", 0, 0, 0)


@pytest.mark.parametrize(
    ("path", "kind", "words", "outcome"),
    [
        ("/status/404", BadStatus, "HOST answered 404 Not Found", "ok"),
        ("/redirect", BadStatus, "HOST answered 302 Found", "ok"),
        ("/status/500", BadStatus, "HOST answered 500 Internal Server Error", "error"),
        ("/status/503", BadStatus, "HOST answered 503 Service Unavailable", "error"),
        ("/status/799", BadStatus, "HOST answered 799", "error"),
        ("/reset", Unreachable, "HOST sent no complete response: the connection failed", "error"),
        ("/cut", Unreachable, "HOST sent no complete response: the connection failed", "error"),
        ("/garbage", Unreachable, "HOST sent no complete response: the connection failed", "error"),
        ("/silent", TimedOut, "HOST sent no data for too long (DOWNSTREAM_READ_SECONDS)", "timeout"),
        ("/dribble", TimedOut, "HOST did not answer within 0.5 s", "timeout"),
        ("/large", Unusable, "The response of HOST is larger than 1000000 bytes", "error"),
        ("/gzip", Unusable, "HOST sent a compressed response", "error"),
    ],
)
async def test_failed_calls(
    host: Misbehaving, path: str, kind: type[DownstreamError], words: str, outcome: str
) -> None:
    """The error of a failed call names the host, but not the query, the password or the host's reply."""
    read, whole = {"/silent": (0.3, 60), "/dribble": (60, 0.5)}.get(path, (60, 60))
    async with opened(read_seconds=read, timeout_seconds=whole, max_bytes=1_000_000) as (downstream, hosts):
        url = f"http://me:hunter2@{host.host}{path}?key=hunter3"
        with pytest.raises(kind) as error:
            await downstream.get(url)
        assert isinstance(error.value, ToolError)
        told = str(error.value)
        assert words.replace("HOST", host.host) in told
        assert not any(secret in told for secret in ("hunter", "secret", "internal", path))
        assert str(type(error.value)("again")) == "again"  # `anyreplica.components.call_limits` does this
        assert {name: count for name, count in hosts.known[host.host].outcomes.items() if count} == {outcome: 1}
        assert (await downstream.get(host.url("/ok"))).status_code == 200


async def test_unreachable_hosts() -> None:
    """A call fails as unreachable if the host refuses the connection or its name cannot be resolved."""
    async with opened(retries=0) as (downstream, _):
        for name in (f"127.0.0.1:{free_port()}", "nobody.invalid", f"{'a' * 70}.invalid"):
            with pytest.raises(Unreachable, match=f"{name} can't be reached"):
                await downstream.get(f"http://{name}/")


@pytest.mark.parametrize("url", ["", "/path", "ftp://a/", "file:///etc/passwd", "http://", "http://a:b/"])
async def test_an_invalid_url_fails(url: str) -> None:
    """A call with an invalid or too long URL fails."""
    async with opened() as (downstream, _):
        with pytest.raises(Unusable, match="The URL is not valid"):
            await downstream.get(url)
        with pytest.raises(Unusable, match="too long"):
            await downstream.get("http://a/", params={"b": "c" * 70_000})


@pytest.mark.parametrize(
    ("method", "path", "idempotent", "asked"),
    [
        ("GET", "/status/503", None, 3),
        ("HEAD", "/status/502", None, 3),
        ("PUT", "/status/504", None, 3),
        ("DELETE", "/reset", None, 3),
        ("OPTIONS", "/cut", None, 3),
        ("GET", "/garbage", None, 3),
        ("POST", "/status/503", True, 3),
        ("POST", "/status/503", None, 1),
        ("POST", "/reset", None, 1),
        ("PATCH", "/reset", None, 1),
        ("GET", "/reset", False, 1),
        ("GET", "/status/500", None, 1),
        ("GET", "/status/429/0", None, 1),
        ("GET", "/silent", None, 1),
        ("GET", "/status/503/60", None, 1),  # the host asks for more time than is left
        ("GET", "/status/503/0", None, 3),
    ],
)
async def test_which_calls_are_retried(
    host: Misbehaving, method: str, path: str, idempotent: bool | None, asked: int
) -> None:
    """A call is retried only if it is safe to repeat and the error may be temporary."""
    async with opened(read_seconds=0.3) as (downstream, hosts):
        options: ApiCallOptions = {} if idempotent is None else {"idempotent": idempotent}
        with pytest.raises(DownstreamError):
            await downstream.request(method, host.url(path), **options)
    assert host.seen(path) == asked
    assert hosts.known[host.host].retries == asked - 1


async def test_a_retry_that_helps(host: Misbehaving) -> None:
    """A caller does not notice a retry that succeeds."""
    async with opened() as (downstream, hosts):
        assert (await downstream.get(host.url("/flaky/2/x"))).status_code == 200
    assert host.seen("/flaky/2/x") == 3
    assert hosts.known[host.host].outcomes["ok"] == 1


async def test_retries_have_a_budget(host: Misbehaving) -> None:
    """Retries have a budget: when every call fails, most calls are tried once."""
    async with opened(breaker_failures=1000, concurrency=50) as (downstream, hosts):
        calls = [downstream.get(host.url("/status/503")) for _ in range(100)]
        assert all(isinstance(error, BadStatus) for error in await asyncio.gather(*calls, return_exceptions=True))
    retries = hosts.known[host.host].retries
    assert 10 <= retries <= 60
    assert host.seen("/status/503") == 100 + retries


async def test_the_deadline_of_the_call_is_kept(host: Misbehaving) -> None:
    """All tries and pauses together keep a deadline, also if a host sends byte by byte. Then no call begins."""
    async with opened() as (downstream, _):

        async def within(seconds: float, path: str) -> str:
            call_limits.set_deadline(seconds)
            call_limits.set_deadline(100)
            with pytest.raises(TimedOut) as error:
                await downstream.get(host.url(path))
            left = call_limits.remaining_seconds()
            assert left is not None
            assert left < 0.2
            return str(error.value)

        for path in ("/silent", "/dribble"):
            for seconds in (0.4, 2, 20):  # on a busy machine, the time may be over before the call begins
                said = await asyncio.create_task(within(seconds, path))
                if "no time was left" not in said:
                    break
            assert re.search(rf"{re.escape(host.host)} did not answer within \d+(\.\d+)? s", said)
        assert f"{host.host} was not called: no time was left" in await asyncio.create_task(within(0, "/ok"))
        assert call_limits.remaining_seconds() is None  # the deadline belongs to the other task
        call_limits.set_deadline(1)
        call_limits.set_deadline(None)
        assert call_limits.remaining_seconds() is None
    assert host.seen("/ok") == 0


async def test_concurrent_calls_to_a_host_are_limited(host: Misbehaving, other: Misbehaving) -> None:
    """As many calls to a host as may run may wait. A further call is refused at once; those to another host go on."""
    async with opened(concurrency=3, timeout_seconds=2, read_seconds=60) as (downstream, hosts):
        calls = [asyncio.create_task(downstream.get(host.url("/silent"))) for _ in range(7)]
        refused, _ = await asyncio.wait(calls, timeout=0.3)
        assert [type(task.exception()) for task in refused] == [Limited]
        state = hosts.known[host.host]
        assert (state.running, state.waiting, state.outcomes["limited"]) == (3, 3, 1)
        for _ in range(10):  # far less than the two seconds after which the calls end, also on a busy machine
            assert (await downstream.get(other.url("/ok"))).status_code == 200
        assert not any(task.done() for task in calls if task not in refused)
        ended = await asyncio.gather(*calls, return_exceptions=True)
        # A waiting call may start just before its own time limit, when another call ends.
        assert {type(error) for error in ended} == {TimedOut, Limited}
    assert host.seen("at once") == 3


async def test_cancelled_calls_leave_nothing(host: Misbehaving) -> None:
    """Cancelled calls take no slot, do not count against the host, and lose no connection."""
    async with opened(concurrency=3, breaker_failures=1) as (downstream, hosts):
        for _ in range(10):
            tasks = [asyncio.create_task(downstream.get(host.url("/silent"))) for _ in range(6)]
            await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        state = hosts.known[host.host]
        assert (state.breaker.state, state.running, state.waiting) == ("closed", 0, 0)
        assert (await downstream.get(host.url("/ok"))).status_code == 200


def test_many_hosts_take_limited_memory() -> None:
    """The memory for hosts is limited: the hosts that were called longest ago are removed, except busy ones."""
    hosts = Hosts(DownstreamSettings.model_construct())
    busy, known = hosts.of("busy"), hosts.of("0")
    busy.calls = 1
    for number in range(1, 1000):
        hosts.of(str(number))
        if number < 500:
            assert hosts.of("0") is known
        assert len(hosts.known) <= MOST
    assert hosts.of("busy") is busy
    assert hosts.of("0") is not known


def test_settings_of_hosts() -> None:
    """A change of the settings applies to all hosts at once."""
    hosts = Hosts(DownstreamSettings.model_construct())
    assert hosts.of("a").places == 20
    hosts.configure(DownstreamSettings.model_validate({"downstream_concurrency": 7}))
    assert hosts.of("a").places == 7


async def test_the_log_reports_only_changes_of_state(host: Misbehaving, caplog: pytest.LogCaptureFixture) -> None:
    """The log reports changes of a host's state, but not each call, and no URL."""
    caplog.set_level(logging.INFO, "anyreplica")
    async with opened(breaker_failures=2) as (downstream, _):
        for _ in range(5):
            with pytest.raises(DownstreamError):
                await downstream.get(host.url("/status/500?key=hunter2"))
    (record,) = caplog.records
    assert f"Circuit open for {host.host} after " in record.getMessage()
