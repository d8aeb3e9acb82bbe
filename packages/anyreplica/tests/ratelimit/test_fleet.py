"""Tests of rate limits that several replicas share."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from anyreplica.features.keys.key import hash_of
from anyreplica.features.ratelimit.buckets import SharedBuckets
from anyreplica.settings.rate import NO_RATE, Rate
from anyreplica.shared.peers import Peers
from conftest import ROOT, Server, environment, until
from tests.calls import legacy
from tests.replicas import RedisServer, running

pytestmark = pytest.mark.needs("redis")

KEY = "k" * 40
_SECONDS = 10.0
"""Time limit in seconds for an answer from Redis.

A replica allows a quarter of a second, which is too little on a busy machine.
"""


@asynccontextmanager
async def fleets(redis: RedisServer, count: int = 3) -> AsyncIterator[list[SharedBuckets]]:
    """Yield the rate limiters of `count` replicas that share a Redis."""
    clients = [Redis.from_url(redis.url, socket_timeout=_SECONDS) for _ in range(count)]
    yield [
        SharedBuckets(client, "test", f"replica-{n}", Peers(count), answer_seconds=_SECONDS)
        for n, client in enumerate(clients)
    ]
    for client in clients:
        await client.aclose()


def within(
    test: Callable[[list[SharedBuckets]], Coroutine[Any, Any, None]], redis: RedisServer, count: int = 3
) -> None:
    """Run a test with the rate limiters of several replicas."""

    async def go() -> None:
        async with fleets(redis, count) as found:
            await test(found)

    asyncio.run(go())


def test_replicas_share_a_bucket(redis_server: RedisServer) -> None:
    """A bucket with ten tokens grants ten calls, whichever replicas receive them."""

    async def take(replicas: list[SharedBuckets]) -> None:
        rate = Rate(1, 3600, 10)
        verdicts = await asyncio.gather(*[replicas[n % 3].take("a", rate, 1) for n in range(30)])
        assert sum(verdict.granted for verdict in verdicts) == 10
        refused = [verdict for verdict in verdicts if not verdict.granted]
        assert all(3500 < verdict.wait <= 3600 for verdict in refused)
        assert (await replicas[0].take("b", rate, 1)).granted
        assert (await replicas[1].take("c", rate, 7)).granted
        assert not (await replicas[2].take("c", rate, 7)).granted

    within(take, redis_server)


def test_replicas_share_the_limit_on_concurrent_calls(redis_server: RedisServer) -> None:
    """The limit on calls in flight holds over all replicas, and an ended call frees its place within 2 s."""

    async def take(replicas: list[SharedBuckets]) -> None:
        rate = NO_RATE.replace(concurrent=4)
        verdicts = await asyncio.gather(*[replicas[n % 3].take("a", rate, 1) for n in range(12)])
        granted = [n % 3 for n, verdict in enumerate(verdicts) if verdict.granted]
        assert len(granted) == 4
        replicas[granted[0]].release("a", rate)
        other = replicas[(granted[0] + 1) % 3]
        verdict = await other.take("a", rate, 1)
        deadline = asyncio.get_running_loop().time() + 2
        while not verdict.granted:
            assert asyncio.get_running_loop().time() < deadline
            verdict = await other.take("a", rate, 1)
        assert not (await replicas[0].take("a", rate, 1)).granted

    within(take, redis_server)


def test_the_calls_of_a_dead_replica_expire(redis_server: RedisServer) -> None:
    """The calls in flight of a dead replica count until its entry in Redis has expired."""

    async def take(replicas: list[SharedBuckets]) -> None:
        dead, alive = replicas
        rate = NO_RATE.replace(concurrent=1)
        assert (await dead.take("a", rate, 1)).granted
        assert not (await alive.take("a", rate, 1)).granted
        deadline = asyncio.get_running_loop().time() + 15
        while not (await alive.take("a", rate, 1)).granted:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.1)

    within(take, redis_server, 2)


def test_a_long_call_keeps_its_place(redis_server: RedisServer) -> None:
    """A long call keeps its place, because its replica renews the place in Redis."""

    async def take(replicas: list[SharedBuckets]) -> None:
        busy, other = replicas
        rate = NO_RATE.replace(concurrent=1)
        async with busy.running():
            assert (await busy.take("a", rate, 1)).granted
            end = asyncio.get_running_loop().time() + 9
            while asyncio.get_running_loop().time() < end:
                assert not (await other.take("a", rate, 1)).granted
                await asyncio.sleep(0.2)

    within(take, redis_server, 2)


def test_a_cancelled_request_takes_no_place(redis_server: RedisServer) -> None:
    """A request that is cancelled before or after the answer of Redis takes no place."""

    async def take(replicas: list[SharedBuckets]) -> None:
        rate = NO_RATE.replace(concurrent=5)
        for turns in range(40):
            asked = asyncio.ensure_future(replicas[0].take("a", rate, 1))
            for _ in range(turns):
                await asyncio.sleep(0)
            asked.cancel()
            (verdict,) = await asyncio.gather(asked, return_exceptions=True)
            if not isinstance(verdict, BaseException) and verdict.granted:
                replicas[0].release("a", rate)
        verdicts = await asyncio.gather(*[replicas[0].take("a", rate, 1) for _ in range(8)])
        assert sum(verdict.granted for verdict in verdicts) == 5

    within(take, redis_server, 1)


def test_each_key_expires(redis_server: RedisServer) -> None:
    """Each key in Redis has an expiry time."""

    async def take(replicas: list[SharedBuckets]) -> None:
        for rate in (Rate(100, 1, 10), NO_RATE.replace(concurrent=1), Rate(5, 86400, 10, concurrent=3)):
            await replicas[0].take(str(rate), rate, 1)

    within(take, redis_server, 1)
    names = redis_server.ask("keys", "*").split()
    assert len(names) == 3
    assert all(int(redis_server.ask("pttl", name)) > 0 for name in names)


def test_without_redis_each_replica_has_its_share(redis_server: RedisServer) -> None:
    """Without Redis each replica grants its share of the rate without a wait.

    When Redis is back, the replicas share the rate again.
    """

    async def take(replicas: list[SharedBuckets]) -> None:
        rate = Rate(1, 3600, 30)
        assert (await replicas[0].take("a", rate, 1)).granted
        redis_server.kill()
        for replica in replicas:
            verdicts = await asyncio.gather(*[replica.take("a", rate, 1) for _ in range(30)])
            assert sum(verdict.granted for verdict in verdicts) == 10
            assert replica.degraded
            assert replica.outages == 1
        redis_server.start()
        deadline = asyncio.get_running_loop().time() + 10
        while any(replica.degraded for replica in replicas):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)
        verdicts = await asyncio.gather(*[replicas[n % 3].take("b", rate, 1) for n in range(60)])
        assert sum(verdict.granted for verdict in verdicts) == 30

    within(take, redis_server)


@pytest.mark.alone
def test_three_replicas_hold_one_rate(tmp_path: Path, redis_server: RedisServer) -> None:
    """With a limit of 100/s, three replicas serve 100 of 300 calls per second over 10 s, within 5 %."""
    keys = tmp_path / "keys"
    keys.write_text(json.dumps({"id": "busy", "hash": hash_of(KEY), "rate": "100/s"}) + "\n")
    known = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(keys)}
    with running(tmp_path, 3, MCP_COMPONENTS="server", REDIS_URL=redis_server.url, **known) as found:
        report = load(found.url, tmp_path / "report.json")
        served = report["requests"] - report["failed"]
        print(f"served {served} of {report['requests']}")
        assert 950 <= served <= 1050
        assert len(report["replicas"]) == 3
        assert all("429" in failure["kind"] for failure in report["failures"])


def load(url: str, file: Path) -> Any:
    """Run ten seconds of load and return the report."""
    command = [sys.executable, "test_swarm_load.py", "--url", f"{url}/mcp", "--token", KEY, "--json", str(file)]
    command += ["--rate", "300", "--duration", "10s", "--concurrent", "32"]
    subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, check=False, timeout=60)
    return json.loads(file.read_text())


def test_a_refusal_says_when_to_retry(start_server: Callable[..., Server], redis_server: RedisServer) -> None:
    """A refused call gets 429, the rate-limit headers and a JSON-RPC error with the request's id.

    The cost of a job also counts over REST.
    """
    server = start_server(REDIS_URL=redis_server.url, RATE_LIMIT="2/m", RATE_BURST="3", TOOL_COSTS="add=2,export_*=3")
    arguments = {"name": "add", "arguments": {"a": 1, "b": 2}}
    assert legacy(server.url, "tools/call", arguments).status_code == 200
    assert legacy(server.url, "tools/list").status_code == 200
    refused = legacy(server.url, "tools/call", arguments)
    assert refused.status_code == 429
    wait = int(refused.headers["Retry-After"])
    assert 55 <= wait <= 60
    assert refused.headers["RateLimit-Limit"] == "2"
    assert refused.headers["RateLimit-Remaining"] == "0"
    assert refused.headers["RateLimit-Reset"] == str(wait)
    said = refused.json()
    assert said["id"] == 1
    assert said["error"]["message"] == f"Too many calls: the rate limit is 2/m; retry in {wait} s."
    assert said["error"]["data"] == {"reason": "rate", "retry_after": wait}
    with httpx.Client(verify=False) as client:
        reply = client.post(f"{server.url}/jobs", json={"job": "export_data", "params": {"rows": 1}})
        assert (reply.status_code, reply.json()["error"]) == (429, "refused")


def test_an_outage_is_logged_and_calls_continue(start_server: Callable[..., Server], redis_server: RedisServer) -> None:
    """Without Redis each of three replicas serves a third of the rate and logs the outage."""
    server, *_ = [start_server(REDIS_URL=redis_server.url, RATE_LIMIT="1/h", RATE_BURST="9") for _ in range(3)]
    until(
        lambda: "mcp_replicas_seen 3.0" in httpx.get(f"{server.url}/metrics").text,
        "the replica has found all three replicas",
    )
    redis_server.kill()
    statuses = [legacy(server.url, "tools/list").status_code for _ in range(5)]
    assert statuses == [200] * 3 + [429] * 2
    consequence = "this replica applies its share of each rate limit by itself"
    assert f"Redis can't be reached: {consequence}" in server.output
    redis_server.start()
    again = f"Redis can be reached again. Until now: {consequence}"
    until(lambda: again in server.output, "the log says that Redis is back")
