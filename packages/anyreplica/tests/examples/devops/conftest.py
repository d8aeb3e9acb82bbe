"""Fixtures: the pack `examples.devops` and a Docker engine."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastmcp.exceptions import ToolError

from tests.autoscale import engine as autoscale
from tests.examples.conftest import Pack, imported
from tests.examples.devops.swarm import SWARM


class Engine(autoscale.Engine):
    """A stand-in for the Docker engine of a Swarm. It answers as Docker's API reference says, and records requests."""

    def __init__(self, socket: Path) -> None:
        super().__init__(socket)
        self.swarm: dict[str, Any] = SWARM
        self._asked: list[str] = []

    def get(self, path: str) -> tuple[int, Any]:
        """Answer a GET request."""
        self._asked.append(f"GET {path}")
        url = urlsplit(path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        filters = json.loads(query.get("filters", "{}"))
        if url.path == "/v1.44/services":
            names = tuple(filters.get("name", [""]))
            hidden = set() if query.get("status") == "true" else {"ServiceStatus"}
            services = [each for each in self.swarm["services"] if each["Spec"]["Name"].startswith(names)]
            return 200, [{key: value for key, value in each.items() if key not in hidden} for each in services]
        if url.path == "/v1.44/tasks":
            of = filters.get("service")
            return 200, [each for each in self.swarm["tasks"] if of is None or each["ServiceID"] in of]
        return 404, {"message": "page not found"}

    def post(self, path: str, spec: dict[str, Any]) -> tuple[int, Any]:
        """Note a POST request, which the pack never sends."""
        self._asked.append(f"POST {path} {spec}")
        return 404, {"message": "page not found"}

    def asked(self) -> list[str]:
        """Return the requests since the last call of this method."""
        found, self._asked = self._asked, []
        return found


class Devops(Pack):
    """The pack and its event loop."""

    def refusal(self, tool: str = "list_deployments", **arguments: Any) -> str:
        """Return the error that a tool gives its caller."""
        with pytest.raises(ToolError) as error:
            self.ask(tool, **arguments)
        return str(error.value)


@contextmanager
def opened(host: str) -> Iterator[Devops]:
    """Import the pack for an engine."""
    with asyncio.Runner() as runner, imported("devops", DOCKER_HOST=host) as module:
        try:
            yield Devops(runner, module)
        finally:
            runner.run(module._DOCKER.close())


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A stand-in for the Docker engine, on a Unix socket. The tests in `test_engine.py` connect to theirs by TCP."""
    with Engine(tmp_path_factory.mktemp("engine") / "docker.sock") as engine:
        yield engine


@pytest.fixture(scope="module")
def devops(engine: Engine) -> Iterator[Devops]:
    """The pack for this engine."""
    with opened(engine.url) as found:
        yield found
