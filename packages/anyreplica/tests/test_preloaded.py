"""Tests that forked servers behave like servers in new Python processes."""

import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from conftest import Server, StartServer
from tests.preloaded import Forked
from tests.processes import open_files


@pytest.mark.smoke
def test_a_forked_server_is_a_process_of_its_own(start_server: StartServer) -> None:
    """A forked server has its own session, environment, log and exit code, and `wait` like `subprocess.Popen`."""
    one, other = start_server(MCP_NAME="one"), start_server(MCP_NAME="other")
    for server, name in ((one, "one"), (other, "other")):
        assert isinstance(server.process, Forked)
        assert os.getsid(server.process.pid) == server.process.pid
        assert httpx.get(f"{server.url}/version").json()["name"] == name
        assert f"{name} 0." in server.output
        logs = {file for file in open_files(server.process.pid) if file.endswith(".log")}
        assert logs == {str(server.log.resolve())}
        assert server.process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.05)
    assert one.stop() == 0
    other.process.kill()
    assert other.process.wait(60) == -signal.SIGKILL
    assert other.stop() == -signal.SIGKILL
    assert not Path(f"/proc/{other.process.pid}").exists()


@pytest.mark.servers
@pytest.mark.parametrize(
    ("arguments", "settings"),
    [(["--reload"], {}), ([], {"PYTHONPATH": "somewhere"}), ([], {"FASTMCP_LOG_LEVEL": "DEBUG"})],
)
def test_some_servers_are_not_forked(tmp_path: Path, arguments: list[str], settings: dict[str, str]) -> None:
    """A server is not forked if it starts other processes or if Python or a library reads its environment at import."""
    server = Server(tmp_path / "log", *arguments, **settings)
    try:
        assert isinstance(server.process, subprocess.Popen)
    finally:
        server.process.kill()
        server.process.wait()
