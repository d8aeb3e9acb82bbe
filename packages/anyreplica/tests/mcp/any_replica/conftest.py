"""A replica without other replicas."""

from collections.abc import Iterator

import pytest

from conftest import Server
from tests.replicas import PACKS


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """A single replica without Redis for each value of JSON_RESPONSE."""
    folder = tmp_path_factory.mktemp("alone")
    servers = {
        mode: Server(folder / mode, MCP_COMPONENTS=PACKS, JSON_RESPONSE=mode) for mode in ("auto", "true", "false")
    }
    try:
        for server in servers.values():
            server.wait_ready()
        yield servers
    finally:
        for server in servers.values():
            server.stop()
