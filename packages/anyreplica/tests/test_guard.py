"""The guard of test runs: nothing is left after a run, however the run ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import PACKAGE, ROOT, until
from tests import guard

_SUPPORTED = pytest.mark.skipif(not guard.is_supported(), reason="this system has no /proc")
pytestmark = [pytest.mark.servers, pytest.mark.slow, _SUPPORTED]

_TEST = """
from conftest import Server

def test_that_waits(local_replicas, start_server, redis_server, tmp_path):
    Server(tmp_path / "without-an-end.log", "--replicas", "2", within=["env"]).wait_ready()
    {then}
"""


def _run(folder: Path, then: str) -> subprocess.Popen[str]:
    """Start a run of one test, which starts two supervisors with five replicas, and a Redis."""
    file = folder / "test_it.py"
    file.write_text(_TEST.format(then=then))
    options = ["-p", "conftest", "-p", "no:cacheprovider", "-c", str(PACKAGE / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", "-q", *options, "--rootdir", str(folder), "-n", "1", str(file)]
    environment = {name: value for name, value in os.environ.items() if name != guard.VARIABLE} | {"MARK": str(folder)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, start_new_session=True, **pipes)


def _left(folder: Path) -> dict[int, str]:
    """Return all processes of a run, without the guard."""
    found = guard.processes_with(f"MARK={folder}")
    return {pid: command for pid, command in found.items() if "tests.guard" not in command}


@pytest.mark.needs("redis")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, number: int) -> None:
    """After Ctrl-C or SIGKILL, no server, worker or Redis of the run is left, and none of what no fixture ends."""
    started = tmp_path / "started"
    with _run(tmp_path, f"open({str(started)!r}, 'w').close(); import time; time.sleep(600)") as run:
        try:
            until(started.exists, "the test has started its servers", 240)
            forked = [command for command in _left(tmp_path).values() if "forkserver" in command]
            assert len(forked) >= 7  # five replicas, and for each supervisor the process that they are forked from
        finally:
            if number == signal.SIGKILL:
                run.kill()
            else:
                os.killpg(run.pid, number)  # as a terminal does
        run.communicate()
    until(lambda: not _left(tmp_path), "nothing is left", 120)


@pytest.mark.needs("redis")
def test_a_process_that_is_left_fails_the_run(tmp_path: Path) -> None:
    """The test passes, but the run fails and names the process that no fixture ends."""
    with _run(tmp_path, "pass") as run:
        printed, _ = run.communicate(timeout=240)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 passed" in printed
    assert "Tests left these processes behind, and the guard ended them:" in printed
    assert "-m server --replicas 2" in printed
    assert not _left(tmp_path)
