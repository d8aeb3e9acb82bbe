"""Tests of tools that fork processes: these processes hold no listening socket and no connection of their replica."""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from anyreplica.process.probe import alive
from conftest import Server, StartServer, until
from tests.calls import call, get
from tests.damage.wire import handshake
from tests.processes import runs

PACK = {"MCP_COMPONENTS": "tests.packs.forking"}


def _found(url: str, tool: str) -> list[int]:
    found: list[int] = call(url, tool, {})["structuredContent"]["result"]
    return found


@pytest.fixture
def forked(start_server: StartServer) -> Iterator[tuple[Server, dict[int, set[int]]]]:
    """Two replicas with their pools of two processes. All these processes end with the test."""
    server = start_server("--replicas", "2", "--no-redis", **PACK)
    pools: dict[int, set[int]] = {}

    def complete() -> bool:
        replica, *pool = _found(server.url, "pids")
        pools.setdefault(replica, set()).update(pool)
        return len(pools) == 2 and all(pools.values())

    try:
        until(complete, "both replicas have forked their pools")
        yield server, pools
    finally:
        for pid in set().union(*pools.values()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_no_connection_goes_to_a_lost_replica(forked: tuple[Server, dict[int, set[int]]]) -> None:
    """After `kill -9` of a replica, the kernel gives none of its connections to the processes that it has forked."""
    server, pools = forked
    lost = min(pools)
    os.kill(lost, signal.SIGKILL)
    until(lambda: not runs(lost), "the replica has ended")
    assert all(runs(pid) for pid in pools[lost])
    assert {get(f"{server.url}/healthz").status_code for _ in range(40)} == {200}
    assert server.stop() == 0
    with pytest.raises(httpx.ConnectError):
        get(f"{server.url}/healthz")


def test_a_stop_ends_the_pools(forked: tuple[Server, dict[int, set[int]]]) -> None:
    """After a stop of the replicas, no process of a pool runs."""
    server, pools = forked
    assert server.stop() == 0
    assert not [pid for pool in pools.values() for pid in pool if runs(pid)]
    assert "Traceback" not in server.output


@pytest.mark.parametrize(("arguments", "unix"), [((), False), ((), True), (("--replicas", "2", "--no-redis"), False)])
def test_a_client_sees_the_end_of_its_connection(
    start_server: StartServer, tmp_path: Path, arguments: tuple[str, ...], *, unix: bool
) -> None:
    """The replica closes a connection although the processes that a tool has forked meanwhile still run."""
    path = str(tmp_path / "mcp.sock")
    server = start_server(*arguments, ready=not unix, **PACK, **({"MCP_UDS": path} if unix else {}))
    until(lambda: not unix or alive(0, path), "the replica serves")
    call_of_pids = handshake("tools/call", {"name": "pids"}, Connection="close")
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as client:
        client.settimeout(60)
        client.connect(path if unix else ("127.0.0.1", server.port))
        client.sendall(call_of_pids)
        received = b"".join(iter(lambda: client.recv(65536), b""))
    assert b'"result":[' in received


def test_a_forked_process_has_the_sockets_of_the_author(start_server: StartServer) -> None:
    """A socket that the server's author has opened is open in a forked process."""
    ours, theirs = _found(start_server(**PACK).url, "own_port")
    assert ours == theirs
