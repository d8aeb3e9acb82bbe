"""Fixtures: a collector of traces and a replica that sends to it; tests share them and do not change them."""

from collections.abc import Iterator

import pytest

from conftest import Server
from tests.tracing.collector import Collector


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """A running collector."""
    with Collector() as made:
        yield made.start()


@pytest.fixture(scope="session")
def traced(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Server]:
    """A replica with a JSON log that sends traces."""
    settings = {"MCP_COMPONENTS": "server,tests.packs.telling", "MCP_NAME": "sparrow", "REPLICA_NAME": "sparrow-1"}
    settings |= {"LOG_FORMAT": "json", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20hush"}
    with Server(tmp_path_factory.mktemp("traced") / "log", **settings, **collector.settings) as server:
        yield server
