"""Tests of make, as a user runs it."""

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest

from conftest import ROOT, environment, free_port, run, until

pytestmark = pytest.mark.slow

READY = Path(sys.prefix, ".ready")
HERE = (f"VENV={sys.prefix}", f"--old-file={READY}")
"""Options that use this environment.

Without them, make would build the environment again for a newer lock file while tests run in it.
"""

made_by_make = pytest.mark.skipif(not READY.exists(), reason="make did not create the environment of this Python")


make = partial(run, "make")


@pytest.mark.servers
def test_help_is_the_default_and_lists_every_target() -> None:
    """The default target prints every target and its purpose."""
    done = make()
    assert done.returncode == 0
    listed = set(re.findall(r"^  make (\S+) +\S", done.stdout, re.MULTILINE))
    assert listed == {
        "help", "up", "dev", "check", "test", "test-all", "test-system", "test-world", "test-busy", "test-swarm",
        "test-attacks",
        "test-fastmcp",
        "test-versions",
        "lint", "format", "image", "deploy", "undeploy", "k8s", "bench", "bench-exchange", "bench-instructions",
        "bench-jobs", "bench-generators", "conformance", "add", "lock", "locks", "wheel", "sbom", "docs", "docs-serve",
        "reference",
    }  # fmt: skip
    assert make("help").stdout == done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.servers
def test_help_shows_the_values_of_the_variables() -> None:
    """The description of `make up` has the port and the number of replicas that it would use."""
    lines = " ".join(make("help", "PORT=8222", "REPLICAS=5").stdout.split())
    assert "run the server as 5 replicas on http://localhost:8222 until Ctrl-C" in lines
    assert "8150" not in lines


@pytest.mark.servers
@made_by_make
def test_up_runs_replicas_until_ctrl_c(tmp_path: Path) -> None:
    """`make up` uses PORT and REPLICAS, prints the URL, and stops all processes after Ctrl-C."""
    port = free_port()
    log = tmp_path / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            ["make", "up", *HERE],
            cwd=ROOT,
            env=environment(PORT=str(port), REPLICAS="2"),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(lambda: "Ctrl-C stops the replicas" in log.read_text(), "all replicas are ready")
        assert f"2 replicas on http://localhost:{port}/mcp" in log.read_text()
        assert httpx.get(f"http://localhost:{port}/readyz").status_code == 200
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(15)

    def gone() -> bool:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    until(gone, "all processes of the group have ended")
    assert "Traceback" not in log.read_text()


@made_by_make
def test_up_on_a_taken_port(local_url: str) -> None:
    """`make up` on a used port fails with one clear line."""
    done = make("up", *HERE, PORT=local_url.rpartition(":")[2])
    assert done.returncode == 2
    assert "Address already in use; set MCP_PORT to another port (with make: PORT=8151 make up)." in done.stderr


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


LATER = ["locks/traces.lock", "locks/examples.lock", "locks/dev.lock", "packages/anyreplica/dev.lock"]
"""Locks that make installs after `locks/server.lock`."""
LOCKS = ["locks/server.lock", *LATER, "locks/build.lock", "packages/anyreplica/upstream/requirements.lock"]


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_hold_versions_and_hashes_only(lock: str) -> None:
    """A lock file has only pinned versions with hashes, and no address of a registry."""
    for line in (ROOT / lock).read_text().splitlines():
        assert re.fullmatch(
            r"[a-z0-9][a-z0-9._-]*(\[[a-z, ]+\])?==\S+( ; .+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line
        ), line


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
