"""Tests of Sentinel URLs. `tests/deploy/test_sentinel.py` tests the loss of a node."""

import subprocess
from pathlib import Path

import httpx
import pytest
from redis.asyncio.sentinel import SentinelManagedSSLConnection

from anyreplica.shared.redis import sentinel_client
from anyreplica.shared.redis_pool import WaitingSentinelPool
from conftest import StartServer, free_port, until
from tests.starts import start

JOB = {"job": "text_of", "params": {"length": 1}}


def pool_of(url: str) -> WaitingSentinelPool:
    """Return the connection pool of a client for this URL."""
    pool = sentinel_client(url, socket_timeout=1.0).connection_pool
    assert isinstance(pool, WaitingSentinelPool)
    return pool


def test_every_part_of_a_url_is_used() -> None:
    """The client uses every part of the URL: Sentinels, passwords, the service name and the connection options."""
    hosts = "s1,s2:4000,[::1],[fd00::2]:4001"
    pool = pool_of(f"redis+sentinel://me:p%2Fw@{hosts}/jobs/3?sentinel_password=q&health_check_interval=7")
    assert pool.service_name == "jobs"
    wanted = {"username": "me", "password": "p/w", "db": 3, "health_check_interval": 7, "socket_timeout": 1.0}
    assert {name: pool.connection_kwargs[name] for name in wanted} == wanted
    sentinels = [each.connection_pool.connection_kwargs for each in pool.sentinel_manager.sentinels]
    found = [(each["host"], each["port"]) for each in sentinels]
    assert found == [("s1", 26379), ("s2", 4000), ("::1", 26379), ("fd00::2", 4001)]
    assert {each["password"] for each in sentinels} == {"q"}


def test_tls_is_used_for_sentinels_and_master() -> None:
    """The connections to the Sentinels and to the master use TLS with the given certificate."""
    pool = pool_of("rediss+sentinel://s1/jobs?ssl_ca_certs=/ca.pem")
    assert pool.connection_class is SentinelManagedSSLConnection
    assert pool.connection_kwargs["ssl_ca_certs"] == "/ca.pem"
    assert pool.sentinel_manager.sentinel_kwargs == {"ssl": True, "ssl_ca_certs": "/ca.pem"}


@pytest.mark.needs("redis")
def test_redis_on_a_unix_socket(tmp_path: Path, start_server: StartServer) -> None:
    """A replica can use a Redis on a Unix socket, whose connections have no TCP keepalive."""
    at = tmp_path / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(at), "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tmp_path) as redis:
        try:
            until(at.exists, "Redis listens")
            url = f"unix://{at}"
            server = start_server(MCP_COMPONENTS="tests.packs.working", REDIS_URL=url, JOBS_URL=url)
            assert httpx.post(f"{server.url}/jobs", json=JOB).status_code == 202
            assert httpx.get(f"{server.url}/health/deep").status_code == 200
        finally:
            redis.terminate()


def test_jobs_copies_applies_only_to_redis(start_server: StartServer) -> None:
    """JOBS_COPIES has no effect on jobs in a replica's memory."""
    server = start_server(MCP_COMPONENTS="tests.packs.working", JOBS_COPIES="1")
    assert httpx.post(f"{server.url}/jobs", json=JOB).status_code == 202


@pytest.mark.parametrize("variable", ["REDIS_URL", "JOBS_URL"])
@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://",
        "redis+sentinel:///jobs",
        "redis+sentinel://s1",
        "redis+sentinel://:secret@s1:x/jobs",
        "redis+sentinel://s1/jobs/one",
        "redis+sentinel://s1/jobs?socket_timeout=long",
    ],
)
def test_an_invalid_url_stops_the_start(variable: str, url: str) -> None:
    """An invalid Sentinel URL stops the start with one line that does not show the password."""
    done = start(**{variable: url, "MCP_COMPONENTS": "tests.packs.working", "MCP_PORT": str(free_port())})
    assert done.returncode != 0
    (line,) = (done.stdout + done.stderr).strip().splitlines()
    assert f"{variable}: not a Sentinel URL; write it like redis+sentinel://" in line
    assert "secret" not in line
