"""Fixtures for the tests of your server."""

from collections.abc import Iterator

import pytest
from anyreplica.testing import Client, replica

from server.server import create_app


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """Start a replica with default settings in this process, and return a client for it."""
    with replica(create_app) as started:
        yield started
