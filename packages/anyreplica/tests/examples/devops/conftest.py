"""Fixtures: the pack `examples.devops` and a Docker engine."""

import asyncio
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from pydantic import validate_call

from conftest import ROOT, free_port, until
from tests.examples.devops.swarm import SWARM


class Engine:
    """A fake Docker engine that records its requests."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        place = str(folder / "docker.sock") if kind == "unix" else str(free_port())
        self.host = f"unix://{place}" if kind == "unix" else f"tcp://127.0.0.1:{place}"
        self.shows(SWARM)
        command = [sys.executable, "-m", "tests.examples.devops.engine", f"{kind}:{place}", str(folder)]
        self.process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)

    def shows(self, swarm: dict[str, Any]) -> None:
        """Set the Swarm that the engine shows."""
        (self.folder / "swarm.json").write_text(json.dumps(swarm))

    def asked(self) -> list[str]:
        """Return the requests since the last call of this method."""
        asked = self.folder / "asked"
        found = asked.read_text().splitlines() if asked.exists() else []
        asked.unlink(missing_ok=True)
        return found

    def stop(self) -> None:
        """Stop the engine."""
        self.process.terminate()
        self.process.wait(60)


class Devops:
    """The pack and its event loop."""

    def __init__(self, runner: asyncio.Runner, module: ModuleType) -> None:
        self.runner = runner
        self.module = module

    def ask(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, with the argument checks of the server, and return the result."""
        return self.runner.run(validate_call(getattr(self.module, tool))(**arguments))

    def refusal(self, tool: str = "list_deployments", **arguments: Any) -> str:
        """Return the error that a tool gives its caller."""
        with pytest.raises(ToolError) as error:
            self.ask(tool, **arguments)
        return str(error.value)


@contextmanager
def opened(host: str) -> Iterator[Devops]:
    """Import the pack for an engine."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setenv("DOCKER_HOST", host)
        sys.modules.pop("examples.devops.tools", None)
        module = importlib.import_module("examples.devops.tools")
        try:
            yield Devops(runner, module)
        finally:
            runner.run(module._DOCKER.close())
            sys.modules.pop("examples.devops.tools", None)


@pytest.fixture(scope="module", params=["unix", "tcp"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that shows a Swarm, on a socket or on a port."""
    engine = Engine(tmp_path_factory.mktemp("engine"), request.param)
    with opened(engine.host) as devops:

        def answers() -> bool:
            try:
                return bool(devops.ask("list_deployments"))
            except ToolError:
                return False

        until(answers, "the engine answers")
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def devops(engine: Engine) -> Iterator[Devops]:
    """The pack for this engine."""
    with opened(engine.host) as found:
        yield found
