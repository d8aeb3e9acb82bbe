"""What the tests of your server share."""

from collections.abc import Iterator

import pytest
from mcp_swarm.testing import Client, replica

from server.server import create_app


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """A client of one replica in this process, with the settings' defaults."""
    with replica(create_app) as started:
        yield started
