"""A fake Swarm for tests of `make deploy`: it stores what it gets and starts nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import PACKAGE, ROOT, environment


class Swarm:
    """A fake Swarm with a `docker` command for `make deploy`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "swarm.json"
        self._file.write_text(json.dumps({"services": {}, "secrets": {}, "configs": {}}))
        command = folder / "docker"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {PACKAGE / "tests" / "deploy" / "swarm.py"} "$@"\n')
        command.chmod(0o755)
        self._settings = {
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "SWARM": str(self._file),
            "DOCKER": shutil.which("docker") or "docker",
        }

    @property
    def state(self) -> dict[str, Any]:
        """The stored services, secrets and configs, each by its name."""
        found: dict[str, Any] = json.loads(self._file.read_text())
        return found

    def image(self, service: str) -> str:
        """Return the image of a service of the stack."""
        container = self.state["services"][f"mcp-swarm_{service}"]["Spec"]["TaskTemplate"]["ContainerSpec"]
        return str(container["Image"])

    def scale(self, service: str, replicas: int) -> None:
        """Set the number of replicas, as `docker service scale` does. Swarm then forgets the state of the update."""
        state = self.state
        state["services"][service]["Spec"]["Mode"]["Replicated"]["Replicas"] = replicas
        state["services"][service].pop("UpdateStatus", None)
        self._file.write_text(json.dumps(state))

    def put(self, **parts: dict[str, int] | dict[str, str] | None) -> None:
        """Set parts of the state.

        `tasks` and `networks` are those that are still listed, each with the number of times, or None: docker fails.
        `nodes` are the nodes, each with its availability; the command runs on the node `manager`. `images` are the
        images of that node, each with its id.
        """
        self._file.write_text(json.dumps(self.state | parts))

    def undeploy(self, *, ok: bool = True, **settings: str) -> str:
        """Run `make undeploy` with variables and return its output; `ok` says whether it must succeed."""
        done = subprocess.run(
            ["make", "undeploy"],
            cwd=ROOT,
            env=environment(**self._settings, **settings),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode == 0) is ok, done.stdout + done.stderr
        return done.stdout + done.stderr

    def deploy(self, *arguments: str, code: int = 0, **settings: str) -> str:
        """Run the command behind `make deploy` with variables, and return its output; it must end with this code."""
        done = subprocess.run(
            [sys.executable, "-m", "server", "deploy", *arguments],
            cwd=ROOT,
            env=environment(**self._settings, **settings),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,  # it starts some dozens of processes, and the machine may be busy
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def swarm(tmp_path: Path) -> Swarm:
    """A fake Swarm before the first deployment."""
    return Swarm(tmp_path)
