"""A node that a test starts outlives the run of the tests."""

import os
from pathlib import Path

import pytest

from tests import guard
from tests.kubernetes.release import start_node


def test_a_started_node_does_not_belong_to_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard of the tests does not find it, neither by its variable nor as a child of this run."""
    number, command = tmp_path / "number", tmp_path / "cluster"
    command.write_text(f"#!/bin/sh\nsleep 300 &\necho $! >{number}\n")
    command.chmod(0o755)
    monkeypatch.setenv("CLUSTER_NODES", str(command))
    monkeypatch.setenv(guard.VARIABLE, "a-run")
    start_node(3)
    node = int(number.read_text())
    try:
        assert node not in guard.processes_with(f"{guard.VARIABLE}=a-run")
        assert Path(f"/proc/{node}/stat").read_text().split()[3] != str(os.getpid())
    finally:
        os.kill(node, 9)


def test_the_command_of_a_node_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test then fails with what the command has printed."""
    command = tmp_path / "cluster"
    command.write_text("#!/bin/sh\necho no power; exit 1\n")
    command.chmod(0o755)
    monkeypatch.setenv("CLUSTER_NODES", str(command))
    # The fixture `whole_cluster` of the next test must not use this command.
    with pytest.raises(AssertionError, match="no power"):
        start_node(3)
