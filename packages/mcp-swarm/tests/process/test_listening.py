"""Where a replica listens, and where it doesn't."""

import socket
import sys
from pathlib import Path

import httpx
import pytest

from conftest import SOURCE, Server, StartServer, free_port, run, until
from mcp_swarm.process.probe import alive
from tests.calls import HEADERS, request

CALL = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})


PROBE = str(SOURCE / "process" / "probe.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a Unix socket may be."""
    return tmp_path / "mcp.sock"


def _start(*arguments: str, **settings: str) -> tuple[int, str]:
    done = run(sys.executable, "-m", "tests.sample", *arguments, **settings)
    return done.returncode, done.stderr


def test_a_replica_serves_over_a_unix_socket(start_server: StartServer, path: Path) -> None:
    """Everything is as over TCP, and the container's health check finds it."""
    server = start_server(ready=False, MCP_UDS=str(path))
    until(lambda: alive(0, str(path)), "it serves")
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
        answer = client.post("/mcp", json=CALL, headers=HEADERS)
        assert answer.json()["result"]["content"][0]["text"] == "hi"
        assert client.get("/readyz").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)
    assert run("python3", "-I", "-S", PROBE, MCP_UDS=str(path)).returncode == 0
    other = run("python3", "-I", "-S", PROBE, MCP_UDS=f"{path}.other")
    assert other.returncode == 1
    assert server.stop() == 0
    assert not path.exists()


def test_a_socket_in_use_is_left_alone(start_server: StartServer, path: Path) -> None:
    """The second replica says so; the first serves on."""
    start_server(ready=False, MCP_UDS=str(path))
    until(lambda: alive(0, str(path)), "it serves")
    second = start_server(ready=False, MCP_UDS=str(path))
    assert second.process.wait(30) == 3
    assert second.output == f"MCP_UDS={path}: another server listens on this socket; choose another path.\n"
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        assert client.get("/healthz").status_code == 200


def test_a_socket_that_was_left_behind_is_replaced(start_server: StartServer, path: Path) -> None:
    """By a process that was killed, say."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    replica = start_server(ready=False, MCP_UDS=str(path))

    until(lambda: alive(0, str(path)), "it serves")
    assert replica.stop() == 0
    assert not path.exists()


def test_paths_that_can_not_be(tmp_path: Path) -> None:
    """One line with the variable's name."""
    file = tmp_path / "file"
    file.write_text("precious")
    for path, reason in (
        (file, "this file exists and is not a socket"),
        (tmp_path / "none" / "mcp.sock", f"the folder {tmp_path / 'none'} does not exist; create it"),
        (tmp_path / ("long" * 30), "at most 100 characters"),
    ):
        code, said = _start(MCP_UDS=str(path))
        assert code == 3
        assert said.startswith(f"MCP_UDS={path}: ")
        assert reason in said
        assert said.count("\n") == 1
    assert file.read_text() == "precious"


def test_replicas_need_a_port() -> None:
    """A Unix socket can't be shared by hash, as ports can."""
    code, said = _start("--replicas", "2", MCP_UDS="mcp.sock")
    assert (code, said) == (3, "MCP_UDS=mcp.sock: only one replica can use it; unset it, or remove --replicas\n")


def test_of_two_servers_that_start_on_one_port_one_gives_up(tmp_path: Path) -> None:
    """Although neither listens when the other looks whether the port is free."""
    port = str(free_port())
    servers = [Server(tmp_path / f"{number}.log", MCP_PORT=port) for number in range(2)]
    try:
        until(lambda: any(server.process.poll() is not None for server in servers), "one has ended", 30)
        codes = [server.process.poll() for server in servers]
        assert sorted(codes, key=str) == [3, None]
        servers[codes.index(None)].wait_ready()
    finally:
        for server in servers:
            server.stop()
