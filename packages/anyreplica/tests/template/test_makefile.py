"""Tests of make, as a user runs it."""

import os
import pty
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import ROOT, environment, free_port, run, until
from tests.processes import descendants, runs

pytestmark = pytest.mark.slow

READY, SERVES = Path(sys.prefix, ".ready"), Path(sys.prefix, ".serves")
HERE = (f"VENV={sys.prefix}", f"--old-file={READY}", f"--old-file={SERVES}")
"""Options that use this environment, which make would otherwise build again for a newer lock file."""

made_by_make = pytest.mark.skipif(not READY.exists(), reason="make did not create the environment of this Python")
make = partial(run, "make")


@pytest.mark.servers
def test_help_is_the_default_and_lists_every_target() -> None:
    """The default target prints every target and its purpose, with the values of the variables that it would use."""
    done = make()
    assert done.returncode == 0
    listed = re.findall(r"^  make (\S+) +\S", done.stdout, re.MULTILINE)
    assert " ".join(sorted(listed)) == (
        "add bench bench-exchange bench-generators bench-instructions bench-jobs check conformance deploy dev docs "
        "docs-serve format help image k8s lint lock locks pictures redeploy reference rollback sbom test test-all "
        "test-attacks test-busy test-cluster test-fastmcp test-swarm test-system test-versions test-world undeploy up "
        "wheel"
    )
    assert make("help").stdout == done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    lines = " ".join(make("help", "PORT=8222", "REPLICAS=5").stdout.split())
    assert "run the server as 5 replicas on http://localhost:8222 until Ctrl-C" in lines
    assert "8150" not in lines


def test_the_makefile_of_a_project_is_short() -> None:
    """A project gets one Makefile, and for a Swarm a few targets more. What only maintainers need is elsewhere."""
    assert len((ROOT / "Makefile").read_text().splitlines()) <= 150
    assert len((ROOT / "deploy" / "swarm.mk").read_text().splitlines()) <= 25
    targets = re.findall(r"^([a-z][a-z -]*)::?.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets == ["help", "up", "dev", "check", "test", "lint", "format", "image", "add", "lock", "locks"]


@pytest.mark.servers
@made_by_make
def test_up_runs_replicas_until_ctrl_c(tmp_path: Path) -> None:
    """`make up` uses PORT and REPLICAS, prints the URL, and stops all processes after Ctrl-C."""
    port = free_port()
    log = tmp_path / "log"
    settings = environment(PORT=str(port), REPLICAS="2")
    with log.open("w") as stream:
        output: Any = {"stdout": stream, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(["make", "up", *HERE], cwd=ROOT, env=settings, start_new_session=True, **output)
    try:
        until(lambda: "Ctrl-C stops the replicas" in log.read_text(), "all replicas are ready")
        assert f"2 replicas on http://localhost:{port}/mcp" in log.read_text()
        assert httpx.get(f"http://localhost:{port}/readyz").status_code == 200
    finally:
        processes = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(15)
    assert len(processes) >= 3
    until(lambda: not any(map(runs, processes)), "all processes have ended")
    assert "Traceback" not in log.read_text()


@pytest.mark.servers
def test_make_up_refuses_an_old_python(tmp_path: Path) -> None:
    """`make up` refuses an old Python with one line, before it makes an environment."""
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 || exit 1\n')
    old.chmod(0o755)
    done = make("up", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}")
    assert done.returncode != 0
    assert f"This project needs Python 3.11 or newer; '{old}' is Python 3.9.2." in done.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.servers
def test_an_install_shows_its_progress_on_a_terminal() -> None:
    """On a terminal, one line counts the packages. Without a terminal, what pip says is not repeated."""
    said = "Collecting a==1\\n  Downloading a-1.whl\\nCollecting b==2\\n"
    recipe = f"tell: ; @printf '{said}' | $(call PROGRESS,locks/server.lock)"
    count = sum("==" in line for line in (ROOT / "locks/server.lock").read_text().splitlines())
    ours, its = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        command = ["make", f"--eval={recipe}", "tell"]
        subprocess.run(command, cwd=ROOT, env=environment(), stderr=its, stdout=subprocess.DEVNULL, check=True)
        os.close(its)
        shown = screen.read(1000).decode()
    assert shown == f"\r  package 1 of {count}\r  package 2 of {count}\r\n"
    done = make(f"--eval={recipe}", "tell")
    assert (done.returncode, done.stderr) == (0, "")


LATER = ["locks/traces.lock", "locks/examples.lock", "locks/dev.lock", "packages/anyreplica/dev.lock"]
"""Locks that make installs after `locks/server.lock`."""
LOCKS = ["locks/server.lock", *LATER, "locks/build.lock", "packages/anyreplica/upstream/requirements.lock"]


PIN = r"[a-z0-9][a-z0-9._-]*(\[[a-z, ]+\])?==\S+( ; .+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?"


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_hold_versions_and_hashes_only(lock: str) -> None:
    """A lock file has only pinned versions with hashes, and no address of a registry."""
    for line in (ROOT / lock).read_text().splitlines():
        assert re.fullmatch(PIN, line), line


def test_locks_repeat_no_package_and_have_the_same_versions() -> None:
    """No lock repeats a package of locks/server.lock for the same platforms, and no package has two versions."""

    def pins(lock: str) -> set[tuple[str, str, str]]:
        return set(re.findall(r"^([a-z0-9._-]+)(?:\[.+\])?==(\S+)(.*)", (ROOT / lock).read_text(), re.MULTILINE))

    for lock in LATER:
        assert not pins("locks/server.lock") & pins(lock), lock
    every = {(name, version) for lock in LOCKS for name, version, _ in pins(lock)}
    assert len({name for name, _ in every}) == len(every)


@pytest.mark.servers
@made_by_make
def test_arguments_go_to_pytest() -> None:
    """`make test ARGS=…` passes ARGS to pytest, which then runs only the selected tests of the server."""
    done = make("test", *HERE, "ARGS=tests/test_resources.py -k resource")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 items" in done.stdout
    assert done.stdout.count("test session starts") == 1


@pytest.mark.servers
def test_lock_renews_all_versions() -> None:
    """`make lock` lets uv choose newer versions for each lock. The test only looks at the commands."""
    done = make("--dry-run", "lock", *HERE)
    assert done.returncode == 0, done.stderr
    compiled = [line for line in done.stdout.splitlines() if "pip compile" in line]
    assert compiled
    assert all("--upgrade" in line for line in compiled)
