"""Tests of spans with the tracer provider of a server's author, without our settings of traces."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from fastmcp import FastMCP
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id, format_trace_id

from anyreplica import Settings, create_app
from anyreplica.testing import replica
from tests.calls import FULL
from tests.replicas import Family, asking
from tests.tracing.calls import Caller

Spans = list[tuple[str, str, str]]
"""The name, the trace and the parent of each span."""


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """The spans of this process, in memory."""
    made, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", provider)
        yield made


@pytest.fixture(scope="module")
def http(exporter: InMemorySpanExporter) -> Iterator[httpx2.Client]:
    """A client of a replica whose server has a tool for each path."""
    mcp = FastMCP("server")
    mcp.tool(lambda: "hello", name="fast")
    for version in ("1", "2"):
        mcp.tool(lambda: "hello", name="versioned", version=version)
    with replica(lambda: create_app(mcp, Settings(mcp_components=()))) as client:
        assert exporter.get_finished_spans() == ()
        yield client.http


def spans(exporter: InMemorySpanExporter) -> Spans:
    """Return the spans, and forget them."""
    found = exporter.get_finished_spans()
    exporter.clear()
    return [
        (each.name, format_trace_id(each.context.trace_id), format_span_id(each.parent.span_id) if each.parent else "")
        for each in found
        if each.context is not None
    ]


@pytest.mark.parametrize("family", ["handshake", "stateless"])
@pytest.mark.parametrize(
    ("method", "tool", "meta"),
    [
        ("tools/call", "fast", {}),
        ("tools/call", "fast", FULL),
        ("tools/call", "versioned", {}),
        ("tools/list", "", {}),
        ("prompts/list", "", {}),
    ],
)
def test_a_span_continues_the_trace_of_the_client(
    http: httpx2.Client, exporter: InMemorySpanExporter, family: Family, method: str, tool: str, meta: dict[str, Any]
) -> None:
    """A span is beneath the client's span in `_meta`, on each path. Without one, it begins a trace."""
    params = {"name": tool, "arguments": {}} if tool else {}
    name = f"{method} {tool}".rstrip()
    for _ in range(2):  # the second list comes from the cache
        caller = Caller()
        for traceparent in (caller.traceparent, "00-0-0-00", {"no": "text"}):
            reply = http.post("/mcp", **asking(family, method, params, traceparent=traceparent, **meta))
            assert "result" in reply.json()
            (span,) = spans(exporter)
            if traceparent == caller.traceparent:
                assert span == (name, caller.trace, caller.span)
            else:
                assert (span[0], span[2]) == (name, "")
