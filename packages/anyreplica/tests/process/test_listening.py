"""Tests of the ports and Unix sockets on which a replica listens."""

import logging
import socket
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from anyreplica.process import listening
from anyreplica.process.probe import alive
from conftest import SOURCE, Server, StartServer, free_port, run, until
from tests.calls import HEADERS, request
from tests.starts import start

CALL = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})


PROBE = str(SOURCE / "process" / "probe.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a Unix socket."""
    return tmp_path / "mcp.sock"


def test_a_replica_serves_over_a_unix_socket(start_server: StartServer, path: Path) -> None:
    """A Unix socket serves calls and the health check. Only one of a process that has ended is replaced."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    server = start_server(ready=False, MCP_UDS=str(path))
    until(lambda: alive(0, str(path)), "the replica serves")
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
        answer = client.post("/mcp", json=CALL, headers=HEADERS)
        assert answer.json()["result"]["content"][0]["text"] == "hi"
        assert client.get("/readyz").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)
    assert run("python3", "-I", "-S", PROBE, MCP_UDS=str(path)).returncode == 0
    assert run("python3", "-I", "-S", PROBE, MCP_UDS=f"{path}.other").returncode == 1
    second = start_server(ready=False, MCP_UDS=str(path))
    assert second.process.wait(60) == 3
    assert second.output == f"MCP_UDS={path}: another server listens on this socket; choose another path.\n"
    assert alive(0, str(path))
    assert server.stop() == 0
    assert not path.exists()


def test_an_invalid_socket_path_stops_the_start(tmp_path: Path) -> None:
    """An invalid socket path stops the start with one line that names the variable."""
    file = tmp_path / "file"
    file.write_text("precious")
    for path, reason in (
        (file, "this file exists and is not a socket"),
        (tmp_path / "none" / "mcp.sock", f"the folder {tmp_path / 'none'} does not exist; create it"),
        (tmp_path / ("long" * 30), "at most 100 characters"),
    ):
        done = start(MCP_UDS=str(path))
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert done.stderr.startswith(f"MCP_UDS={path}: ")
        assert reason in done.stderr
    assert file.read_text() == "precious"


def test_several_replicas_need_a_port() -> None:
    """Several replicas cannot share a Unix socket, because the kernel spreads connections only if they share a port."""
    done = start("--replicas", "2", MCP_UDS="mcp.sock")
    told = "MCP_UDS=mcp.sock: only one replica can use it; unset it, or remove --replicas\n"
    assert (done.returncode, done.stderr) == (3, told)


@pytest.mark.servers
def test_only_one_of_two_servers_can_start_on_one_port(tmp_path: Path) -> None:
    """Only one of two servers starts on one port, although the port was free when each of them checked."""
    port = str(free_port())
    servers = [Server(tmp_path / f"{number}.log", MCP_PORT=port) for number in range(2)]
    try:
        until(lambda: any(each.process.poll() is not None for each in servers), "one of the two servers has ended", 30)
        codes = [server.process.poll() for server in servers]
        assert sorted(codes, key=str) == [3, None]
        servers[codes.index(None)].wait_ready()
    finally:
        for server in servers:
            server.stop()


@pytest.mark.anyio
async def test_the_end_of_the_start_writes_the_waiting_log_lines() -> None:
    """A supervisor writes its welcome when its processes have started. So their lines must be there before."""
    written: list[bool] = []

    class Waiting(logging.Handler):
        def flush(self) -> None:
            written.append(server.started)

    server = listening.StoppableServer(uvicorn.Config(PlainTextResponse("hi"), lifespan="off", log_config=None))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    handler = Waiting()
    logging.getLogger().addHandler(handler)
    try:
        await server.startup(sockets=[])
    finally:
        logging.getLogger().removeHandler(handler)
    await server.shutdown(sockets=[])
    assert written == [True]
