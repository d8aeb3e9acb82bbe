"""A collector of traces: a process that receives OTLP over HTTP and writes one span per line into a file."""

import json
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from conftest import ROOT, free_port, until

Span = dict[str, Any]


class Collector:
    """The collector's process; it may start later than the servers that send to it."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.file = folder / "spans"
        self.file.touch()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        command = [sys.executable, "-m", "tests.tracing.collector", str(self.port), str(self.file)]
        self._process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        until(self._answers, "the collector answers")

    def stop(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a server that sends its spans here after a short delay."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "20"}

    @property
    def spans(self) -> list[Span]:
        """The spans received so far."""
        return [json.loads(line) for line in self.file.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def find(self, which: Callable[[Span], bool], what: str, count: int = 1) -> list[Span]:
        """Wait for a number of matching spans, and return them."""
        until(
            lambda: len([span for span in self.spans if which(span)]) >= count, f"the collector has received {what}", 15
        )
        return [span for span in self.spans if which(span)]

    def trace(self, identity: str, requests: int = 1) -> list[Span]:
        """Return the spans of a trace, the outermost first.

        The span of a request arrives last. So the method waits until `requests` such spans have arrived.
        """
        edge = {"trace": identity, "scope": "anyreplica", "kind": "SERVER"}
        self.find(
            lambda span: all(span[name] == value for name, value in edge.items()), f"{requests} of {identity}", requests
        )
        return outermost_first([span for span in self.spans if span["trace"] == identity])

    def _answers(self) -> bool:
        try:
            return httpx.get(self.url).status_code == 200
        except httpx.HTTPError:
            return False


def outermost_first(spans: list[Span]) -> list[Span]:
    """Return the spans of one trace, each one behind its parent."""
    known = {span["id"]: span for span in spans}

    def depth(span: Span) -> int:
        return 1 + depth(known[span["parent"]]) if span["parent"] in known else 0

    return sorted(spans, key=depth)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    file: Path

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        lines = []
        for resource in request.resource_spans:
            of = {**_plain(resource.resource.attributes), "authorization": self.headers["Authorization"] or ""}
            for scope in resource.scope_spans:
                lines += [json.dumps({**_span(span), "scope": scope.scope.name, "of": of}) for span in scope.spans]
        with self.file.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        self._answer()

    def _answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Log nothing, so that the tests' output stays clean."""


def _span(span: Any) -> Span:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as Wire
    from opentelemetry.proto.trace.v1.trace_pb2 import Status

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


if __name__ == "__main__":
    _Handler.file = Path(sys.argv[2])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
