"""An unreachable collector: calls are answered, the log warns once, and the stop does not wait."""

import socket

from conftest import StartServer, free_port, until
from tests.calls import call
from tests.tracing.collector import Collector

LOST, FOUND = "Traces: export to the collector failed", "Traces: export to the collector works again"


def test_a_collector_that_comes_later(start_server: StartServer) -> None:
    """The log says once that spans are lost, and once that they are sent again."""
    with Collector() as collector:
        server = start_server(**collector.settings)
        for _ in range(3):
            for number in range(5):
                assert call(server.url, "add", {"a": number, "b": 1})["structuredContent"] == {"result": number + 1}
            until(lambda: LOST in server.output, "the log reports lost spans")
        collector.start()
        until(
            lambda: bool(call(server.url, "echo", {"message": "x"})) and FOUND in server.output,
            "the log reports that spans are sent again",
        )
        assert collector.spans
    assert (server.output.count(LOST), server.output.count(FOUND)) == (1, 1)
    assert "opentelemetry" not in server.output
    assert server.stop() == 0


def test_a_collector_that_never_answers(start_server: StartServer) -> None:
    """A silent collector delays neither a call nor the stop of the replica."""
    with socket.create_server(("127.0.0.1", free_port())) as silent:
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}/"}
        server = start_server(**settings, OTEL_EXPORTER_OTLP_TIMEOUT="60", OTEL_BSP_SCHEDULE_DELAY="20")
        for _ in range(5):
            call(server.url, "echo", {"message": "x"})
        silent.settimeout(10)
        connection, _ = silent.accept()  # the replica tries to send
        with connection:
            assert server.stop(seconds=15) == 0


def test_the_last_spans_are_sent(start_server: StartServer) -> None:
    """The last spans are sent at the stop, even before their delay is over."""
    with Collector() as collector:
        server = start_server(**{**collector.start().settings, "OTEL_BSP_SCHEDULE_DELAY": "600000"})
        call(server.url, "echo", {"message": "x"})
        assert server.stop() == 0
        assert [span["name"] for span in collector.spans if span["scope"] == "anyreplica"] == ["POST /mcp"]
