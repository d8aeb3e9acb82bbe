"""A collector of traces: it receives OTLP over HTTP in a thread of the test, and keeps the spans in memory."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Wire
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from conftest import free_port, until

Span = dict[str, Any]


class Collector:
    """A collector within a `with` block. It listens from `start` on, which may be later than the servers' start."""

    def __init__(self) -> None:
        self.port = free_port()
        self.spans: list[Span] = []
        """The spans received so far."""
        self._serving: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._serving is not None:
            self._serving.shutdown()
            self._serving.server_close()

    def start(self) -> Self:
        """Begin to listen."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler) -> None:  # noqa: N805  # `self` is the collector
                request = ExportTraceServiceRequest()
                request.ParseFromString(handler.rfile.read(int(handler.headers["Content-Length"])))
                for resource in request.resource_spans:
                    sent = {"authorization": handler.headers["Authorization"] or ""}
                    of = {**_plain(resource.resource.attributes), **sent}
                    for scope in resource.scope_spans:
                        self.spans += [{**_span(span), "scope": scope.scope.name, "of": of} for span in scope.spans]
                handler.send_response(200)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._serving = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._serving.daemon_threads = True
        threading.Thread(target=self._serving.serve_forever, args=(0.02,), daemon=True).start()
        return self

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a server that sends its spans here after a short delay."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}", "OTEL_BSP_SCHEDULE_DELAY": "20"}

    def find(self, which: Callable[[Span], bool], what: str, count: int = 1) -> list[Span]:
        """Wait for a number of matching spans, and return them."""
        until(lambda: sum(map(which, self.spans)) >= count, f"the collector has received {what}", 15)
        return list(filter(which, self.spans))

    def trace(self, identity: str, requests: int = 1) -> list[Span]:
        """Return a trace, the outermost span first, after `requests` spans of requests, which come last."""
        edge = [identity, "anyreplica", "SERVER"]
        kind = ("trace", "scope", "kind")
        self.find(lambda span: [span[name] for name in kind] == edge, f"{requests} of {identity}", requests)
        return outermost_first([span for span in self.spans if span["trace"] == identity])


def outermost_first(spans: list[Span]) -> list[Span]:
    """Return the spans of one trace, each one behind its parent."""
    known = {span["id"]: span for span in spans}

    def depth(span: Span) -> int:
        return 1 + depth(known[span["parent"]]) if span["parent"] in known else 0

    return sorted(spans, key=depth)


def _span(span: Any) -> Span:
    return {
        "name": span.name,
        "kind": Wire.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "status": Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        "why": span.status.message,
        "attributes": _plain(span.attributes),
        "events": [{"name": event.name, **_plain(event.attributes)} for event in span.events],
        "links": [f"{link.trace_id.hex()}-{link.span_id.hex()}" for link in span.links],
        "nanoseconds": span.end_time_unix_nano - span.start_time_unix_nano,
    }


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
