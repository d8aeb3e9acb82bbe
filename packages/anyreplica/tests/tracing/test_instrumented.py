"""Tests of replicas with the tracer provider of `opentelemetry-instrument`, or of the author's module."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Server, StartServer
from tests.replicas import Family
from tests.tracing.calls import Caller, call
from tests.tracing.collector import Collector, Span

pytestmark = [pytest.mark.servers]

_RUN = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
INSTRUMENT = (sys.executable, "-c", _RUN)
"""What the command `opentelemetry-instrument` runs."""

ONE, TWO = (), ("--replicas", "2")

_SERVER = """
from fastmcp import FastMCP

mcp = FastMCP("server")
mcp.tool(lambda: "hello", name="fast")
for version in ("1", "2"):
    mcp.tool(lambda: "hello", name="versioned", version=version)
"""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """A collector for this module: other tests expect no spans but their own."""
    with Collector() as made:
        yield made.start()


_PROVIDER = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
"""


def started(
    start_server: StartServer,
    collector: Collector,
    folder: Path,
    replicas: tuple[str, ...],
    module: str = _SERVER,
    **settings: str,
) -> Server:
    """Start replicas of the server of an author. Without a module that sets tracing up, the command does."""
    (folder / "server.py").write_text(module)
    settings = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{collector.port}/v1/traces",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        **settings,
    }
    command = ("-m", "anyreplica", "run", str(folder / "server.py"), *replicas)
    server = start_server(command=command, within=INSTRUMENT if module == _SERVER else (), **settings)
    server.wait_ready()
    return server


def span_of(collector: Collector, caller: Caller, tool: str) -> Span:
    """Wait for the span of a call, and return it."""
    name = f"tools/call {tool}"
    (span,) = collector.find(lambda span: (span["trace"], span["name"]) == (caller.trace, name), f"the span {name}")
    return span


@pytest.mark.parametrize("replicas", [ONE, TWO])
@pytest.mark.parametrize("family", ["handshake", "stateless"])
def test_a_span_continues_the_trace_of_the_client(
    start_server: StartServer, collector: Collector, tmp_path: Path, family: Family, replicas: tuple[str, ...]
) -> None:
    """The span of a call is beneath the span in its `_meta`, on each path, in one replica and in several."""
    server = started(start_server, collector, tmp_path, replicas, OTEL_BSP_SCHEDULE_DELAY="20")
    for tool in ("fast", "versioned"):
        for _ in range(4):
            caller = Caller()
            reply = call(server.url, family, "tools/call", {"name": tool}, traceparent=caller.traceparent)
            assert "hello" in reply.text
            assert span_of(collector, caller, tool)["parent"] == caller.span


@pytest.mark.parametrize("replicas", [ONE, TWO])
def test_our_own_traces_beside_it(
    start_server: StartServer, collector: Collector, tmp_path: Path, replicas: tuple[str, ...]
) -> None:
    """With OTEL_EXPORTER_OTLP_ENDPOINT, the span of the request is between both. Each span is sent once."""
    settings = {
        **collector.settings,
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{collector.port}/v1/traces",
    }
    server = started(start_server, collector, tmp_path, replicas, **settings)
    for _ in range(4):
        caller = Caller()
        call(server.url, "stateless", "tools/call", {"name": "fast"}, traceparent=caller.traceparent)
        span = span_of(collector, caller, "fast")
        request, again = collector.trace(caller.trace)
        assert (request["name"], request["parent"]) == ("POST /mcp", caller.span)
        assert again == span
        assert span["parent"] == request["id"]


@pytest.mark.parametrize("replicas", [ONE, TWO])
@pytest.mark.parametrize("module", [_SERVER, _PROVIDER + _SERVER], ids=["command", "module"])
def test_the_last_spans_are_sent(
    start_server: StartServer, collector: Collector, tmp_path: Path, module: str, replicas: tuple[str, ...]
) -> None:
    """A replica that stops sends the spans that it has not sent yet. By default, a span waits for up to 5 s."""
    server = started(start_server, collector, tmp_path, replicas, module)
    callers = [Caller() for _ in range(4)]
    for caller in callers:
        call(server.url, "stateless", "tools/call", {"name": "fast"}, traceparent=caller.traceparent)
    assert server.stop() == 0
    for caller in callers:
        assert span_of(collector, caller, "fast")["parent"] == caller.span
