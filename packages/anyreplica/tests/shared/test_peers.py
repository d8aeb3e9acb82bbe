"""Tests that a replica stops offering features that need shared storage when other replicas appear."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from anyreplica.settings import Settings
from anyreplica.shared.peers import Peers, peers
from conftest import Server, StartServer, until
from tests.calls import legacy, modern
from tests.replicas import RedisServer

pytestmark = pytest.mark.slow

JOBS = {"submit_job", "generate_report", "export_data"}


def offered(server: Server) -> set[str]:
    """Return the offered features that need shared storage if there are several replicas."""
    tools = {tool["name"] for tool in legacy(server.url, "tools/list").json()["result"]["tools"]}
    told = modern(server.url, "server/discover").json()["result"]["capabilities"]
    found = {
        "all tools of jobs": tools >= JOBS,
        "a tool of jobs": bool(tools & JOBS),
        "/jobs": httpx.get(f"{server.url}/jobs").status_code == 200,
        "tasks": "io.modelcontextprotocol/tasks" in told.get("extensions", {}),
        "subscriptions": bool(told["tools"].get("listChanged")),
    }
    return {what for what, offers in found.items() if offers}


EVERYTHING = {"all tools of jobs", "a tool of jobs", "/jobs", "tasks", "subscriptions"}


@pytest.mark.needs("redis")
def test_replicas_find_each_other_in_redis(start_server: StartServer, redis_server: RedisServer) -> None:
    """Two replicas that find each other in Redis offer no jobs, because each keeps its jobs in memory.

    They still offer subscriptions, which go through Redis.
    """
    settings = {"REDIS_URL": redis_server.url}
    one = start_server(REPLICA_NAME="one", **settings)
    assert offered(one) == EVERYTHING
    other = start_server(REPLICA_NAME="other", **settings)
    assert offered(other) == {"subscriptions"}
    until(lambda: offered(one) == {"subscriptions"}, "the first replica no longer offers jobs")
    assert one.output.count("There are 2 replicas now; this replica no longer offers jobs (they need JOBS_URL") == 1
    reply = httpx.post(f"{one.url}/jobs", json={"job": "generate_report"})
    assert (reply.status_code, "JOBS_URL" in reply.json()["message"]) == (503, True)
    other.stop()
    until(lambda: offered(one) == EVERYTHING, "the first replica offers everything again")
    assert "mcp_replicas_seen 1.0" in httpx.get(f"{one.url}/metrics").text


def hosts_can_be_replaced() -> bool:
    """Return whether this process may replace /etc/hosts for another process."""
    command = ["unshare", "--mount", "true"]
    return bool(shutil.which("unshare")) and subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not hosts_can_be_replaced(), reason="only root may replace /etc/hosts of a process")
def test_replicas_find_each_other_by_a_name(tmp_path: Path, start_server: StartServer) -> None:
    """Replicas find each other by a DNS name that has one address per replica, as in Swarm.

    This replica has an IPv6 address, too, as in a network with both versions of IP. It counts as one replica.
    """
    hosts = tmp_path / "hosts"
    own = "127.0.0.1 localhost\n127.0.0.1 tasks.mcp\n::1 tasks.mcp\n"
    hosts.write_text(own)
    server = Server(
        tmp_path / "log",
        REPLICAS_DNS="tasks.mcp",
        within=["unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts; exec "$@"', "sh"],
    )
    try:
        server.wait_ready()
        assert offered(server) == EVERYTHING
        hosts.write_text(f"{own}127.0.0.2 tasks.mcp\n127.0.0.3 tasks.mcp\n")
        until(lambda: not offered(server), "the replica offers neither jobs nor subscriptions")
        assert "There are 3 replicas now; this replica no longer offers jobs" in server.output
        assert "subscriptions (they need REDIS_URL)" in server.output
        hosts.write_text(own)
        until(lambda: offered(server) == EVERYTHING, "the replica offers everything again")
    finally:
        server.stop()


def counts_after(looks: list[int | None], planned: int = 1) -> list[tuple[int, bool]]:
    """Return the count and whether the replica is alone after each look-up. None stands for a failed look-up."""
    found: list[tuple[int, bool]] = []
    left = iter(looks)

    async def look() -> int:
        seen = next(left)
        if seen is None:
            raise OSError
        return seen

    async def go() -> None:
        known = Peers(planned, look)
        for _ in looks:
            await known._count(looks=2)
            found.append((known.count, known.is_single))

    asyncio.run(go())
    return found


def test_a_short_overlap_does_not_count_as_a_second_replica() -> None:
    """A second replica counts after two look-ups that agree. A failed look-up changes nothing."""
    assert counts_after([1, 2, 1, 2, 2, 1]) == [(1, True), (2, True), (1, True), (2, True), (2, False), (1, False)]
    assert counts_after([2, None, 2, None]) == [(2, True), (2, True), (2, False), (2, False)]
    assert counts_after([1, 1, 1], planned=3) == [(1, False)] * 3


@pytest.mark.anyio
@pytest.mark.needs("redis")
async def test_a_stopped_replica_is_removed(redis_server: RedisServer) -> None:
    """A stopped replica removes its entry in Redis, and the key expires after the last replica."""
    redis: Any = Redis.from_url(redis_server.url)
    settings = Settings(mcp_name="gone")
    async with peers(settings, redis, "one").running(), peers(settings, redis, "two").running():
        there = await redis.zcard("gone:replicas")
        assert 0 < await redis.pttl("gone:replicas") <= 10_000
    left = await redis.zcard("gone:replicas")
    await redis.aclose()
    assert (there, left) == (2, 0)
