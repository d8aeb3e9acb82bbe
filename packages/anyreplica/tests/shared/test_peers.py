"""Tests of how replicas count each other."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from anyreplica import Settings
from anyreplica.shared.peers import Peers, peers
from conftest import Server, StartServer, until
from tests.calls import legacy, modern
from tests.replicas import RedisServer

pytestmark = pytest.mark.slow


def seen(server: Server) -> float:
    """Return the number of replicas that a replica sees."""
    metrics = httpx.get(f"{server.url}/metrics").text
    return float(metrics.partition("\nmcp_replicas_seen ")[2].partition("\n")[0])


@pytest.mark.needs("redis")
def test_replicas_find_each_other_in_redis(start_server: StartServer, redis_server: RedisServer) -> None:
    """A replica sees when another one starts or stops."""
    one = start_server(REPLICA_NAME="one", REDIS_URL=redis_server.url)
    assert seen(one) == 1
    other = start_server(REPLICA_NAME="other", REDIS_URL=redis_server.url)
    until(lambda: (seen(one), seen(other)) == (2, 2), "both replicas see both")
    other.stop()
    until(lambda: seen(one) == 1, "the first replica sees that it is the only one")


def hosts_can_be_replaced() -> bool:
    """Return whether this process may replace /etc/hosts for another process."""
    command = ["unshare", "--mount", "true"]
    return bool(shutil.which("unshare")) and subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not hosts_can_be_replaced(), reason="only root may replace /etc/hosts of a process")
def test_replicas_find_each_other_by_a_name(tmp_path: Path, start_server: StartServer) -> None:
    """Replicas find each other by a DNS name that has one address per replica, as in Swarm.

    This replica has an IPv6 address, too, as in a network with both versions of IP. It counts as one replica. Whatever
    the number, such a replica offers nothing that other replicas could not know.
    """
    hosts = tmp_path / "hosts"
    own = "127.0.0.1 localhost\n127.0.0.1 tasks.mcp\n::1 tasks.mcp\n"
    hosts.write_text(own)
    within = ["unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts; exec "$@"', "sh"]
    with Server(tmp_path / "log", REPLICAS_DNS="tasks.mcp", within=within) as server:
        assert seen(server) == 1
        tools = {tool["name"] for tool in legacy(server.url, "tools/list").json()["result"]["tools"]}
        assert "submit_job" not in tools
        discovered = modern(server.url, "server/discover").json()["result"]["capabilities"]
        assert not discovered["tools"].get("listChanged")
        reply = httpx.post(f"{server.url}/jobs", json={"job": "generate_report"})
        assert (reply.status_code, "JOBS_URL" in reply.json()["message"]) == (503, True)
        assert "Jobs are off: the replicas of a service need a shared queue; set JOBS_URL=redis://…" in server.output
        assert "Subscriptions are disabled" in server.output
        hosts.write_text(f"{own}127.0.0.2 tasks.mcp\n127.0.0.3 tasks.mcp\n")
        until(lambda: seen(server) == 3, "the replica sees the other two")


@pytest.mark.anyio
async def test_a_failed_count_changes_nothing() -> None:
    """The last known number stays."""

    async def look() -> int:
        raise OSError

    known = Peers(3, look)
    async with known.running():
        assert known.count == 3


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
