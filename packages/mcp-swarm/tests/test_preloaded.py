"""Servers that are forked are like those that are started."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from conftest import Server, StartServer, until
from tests.preloaded import Forked


def test_a_forked_server_is_a_process_of_its_own(start_server: StartServer) -> None:
    """Its own session, environment and log, no file of another's, and an exit code."""
    one, other = start_server(MCP_NAME="one"), start_server(MCP_NAME="other")
    for server, name in ((one, "one"), (other, "other")):
        assert isinstance(server.process, Forked)
        assert os.getsid(server.process.pid) == server.process.pid
        assert httpx.get(f"{server.url}/version").json()["name"] == name
        assert f"{name} 0." in server.output
        logs = set()
        for file in Path(f"/proc/{server.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a connection that has ended meanwhile
                logs.add(file.readlink().name)
        assert {file for file in logs if file.endswith(".log")} == {server.log.name}
    assert one.stop() == 0
    other.process.kill()
    assert other.process.wait(10) == -signal.SIGKILL
    assert other.stop() == -signal.SIGKILL
    assert not Path(f"/proc/{other.process.pid}").exists()


def test_one_that_runs_on_is_waited_for_in_vain(start_server: StartServer) -> None:
    """As with `subprocess`."""
    server = start_server()
    assert server.process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        server.process.wait(0.05)


def test_one_that_refuses_to_start(start_server: StartServer) -> None:
    """Says why, with its exit code."""
    server = start_server(ready=False, MCP_COMPONENTS="no.such.package")
    until(lambda: server.process.poll() == 3, "it has ended")
    assert "no.such.package" in server.output


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        (["--replicas", "1"], {}),
        ([], {"PYTHONPATH": "somewhere"}),
        ([], {"FASTMCP_LOG_LEVEL": "DEBUG"}),
    ],
)
def test_others_are_started_anew(tmp_path: Path, arguments: list[str], settings: dict[str, str]) -> None:
    """Those with processes of their own, and those whose environment is read when Python or a library is loaded."""
    server = Server(tmp_path / "log", *arguments, **settings)
    try:
        assert isinstance(server.process, subprocess.Popen)
    finally:
        server.process.kill()
        server.process.wait()
