"""A collector that isn't there: calls are answered, the log tells it once, and the end doesn't wait for it."""

import socket
from pathlib import Path

import pytest

from conftest import StartServer, free_port, until
from tests.calls import call
from tests.tracing.collector import Collector

pytestmark = pytest.mark.slow

LOST, FOUND = "Traces: export to the collector failed", "Traces: export to the collector works again"


def test_a_collector_that_comes_later(start_server: StartServer, tmp_path: Path) -> None:
    """The log says that spans are lost, and when they aren't any more."""
    collector = Collector(tmp_path)
    server = start_server(**collector.settings)
    for _ in range(3):
        for number in range(5):
            assert call(server.url, "add", {"a": number, "b": 1})["structuredContent"] == {"result": number + 1}
        until(lambda: LOST in server.output, "the log tells of it")
    try:
        collector.start()
        until(lambda: bool(call(server.url, "echo", {"message": "x"})) and FOUND in server.output, "spans arrive")
    finally:
        collector.stop()
    assert collector.spans
    assert (server.output.count(LOST), server.output.count(FOUND)) == (1, 1)
    assert "opentelemetry" not in server.output
    assert server.stop() == 0


def test_a_collector_that_never_answers(start_server: StartServer) -> None:
    """Nobody waits for it: no call, and not the end of the replica."""
    with socket.create_server(("127.0.0.1", free_port())) as silent:
        port = silent.getsockname()[1]
        server = start_server(
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}/",
            OTEL_EXPORTER_OTLP_TIMEOUT="60",
            OTEL_BSP_SCHEDULE_DELAY="20",
        )
        for _ in range(5):
            call(server.url, "echo", {"message": "x"})
        silent.settimeout(10)
        connection, _ = silent.accept()  # it tries
        with connection:
            assert server.stop(seconds=15) == 0


def test_the_last_spans_are_sent(start_server: StartServer, tmp_path: Path) -> None:
    """Those too that would have waited for more of them."""
    collector = Collector(tmp_path)
    collector.start()
    try:
        server = start_server(**{**collector.settings, "OTEL_BSP_SCHEDULE_DELAY": "600000"})
        call(server.url, "echo", {"message": "x"})
        assert server.stop() == 0
        assert [span["name"] for span in collector.spans if span["scope"] == "mcp-swarm"] == ["POST /mcp"]
    finally:
        collector.stop()
