"""Tests of the docker commands of `make deploy`: each has a time limit."""

import os
from pathlib import Path

import pytest

from anyreplica.cli.deploy import main
from anyreplica.deploy import image
from anyreplica.deploy.running import DockerTimeoutError, docker, exists, tasks

pytestmark = pytest.mark.servers


def put_docker(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a docker command first on PATH, and let the program wait for half a second for it."""
    command = folder / "docker"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("anyreplica.deploy.running._SECONDS", 0.5)


def test_the_deployment_of_an_engine_that_hangs_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make deploy` ends with one line, which names the command and the limit."""
    put_docker(tmp_path, monkeypatch, "exec sleep 60")
    assert main([]) == 1
    assert capsys.readouterr().err == "docker service ls: no answer within 0.5 s.\n"


def test_the_error_has_no_options_and_no_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the docker command without its options. A command may have a limit of its own."""
    put_docker(tmp_path, monkeypatch, "exec sleep 60")
    with pytest.raises(DockerTimeoutError, match=r"^docker run: no answer within 0\.2 s\.$"):
        docker("run", "--rm", "image", seconds=0.2)


def test_no_answer_is_not_the_answer_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Docker does not answer, a secret, an image or a task does not count as missing."""
    put_docker(tmp_path, monkeypatch, 'test "$2" = ps && { echo one two; exit; }\nexec sleep 60')
    with pytest.raises(DockerTimeoutError, match="docker secret inspect"):
        exists("secret", "auth_token")
    with pytest.raises(DockerTimeoutError, match="docker image inspect"):
        image.by_content("mcp-swarm:latest")
    with pytest.raises(DockerTimeoutError, match="docker inspect"):
        tasks("shop")
