"""The feature *tracing*: spans of requests and jobs, sent to OTEL_EXPORTER_OTLP_ENDPOINT."""

import os
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import context as current_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyreplica._version import __version__
from anyreplica.feature import Feature, Parts, Position, Replica
from anyreplica.features.tracing.last_spans import flushing
from anyreplica.features.tracing.settings import TracingSettings
from anyreplica.http.request_record import FAULT, LONGEST, RequestRecord, mcp_paths, path_of, quiet_paths, record_of
from anyreplica.http.responses import BEGINNINGS
from anyreplica.http.trace_context import parent_of_headers, parent_of_meta
from anyreplica.process.logs import request_id, trace_id
from anyreplica.settings.errors import StartupError
from anyreplica.settings.replica import PathSettings

if TYPE_CHECKING:
    from anyreplica.features.tracing.export import Export


_PROTOCOL = "http/protobuf"
_ABSENT = (
    "OTEL_EXPORTER_OTLP_ENDPOINT: the packages for traces are not installed; "
    "build the image with --build-arg EXTRAS=traces, or run "
    "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
)


def tracing(settings: TracingSettings, replica: str) -> "Export | None":
    """Start tracing, or return None if the settings enable no traces.

    Call this function once in a process, before any code asks whether calls are traced.

    Raises:
        StartupError: the SDK is not installed, or refuses one of its environment variables.
    """
    if not settings.otel_exporter_otlp_endpoint:
        return None
    check(settings)
    from anyreplica.features.tracing import export  # noqa: PLC0415  # the import takes 0.2 s

    try:
        return export.begin(settings, replica)
    except ValueError as error:
        raise StartupError(f"OTEL_…: {error}") from None


def check(settings: TracingSettings) -> None:
    """Check that traces can be sent.

    Raises:
        StartupError: the SDK is not installed, or its variables select another protocol.
    """
    if not settings.otel_exporter_otlp_endpoint:
        return
    try:
        from anyreplica.features.tracing import export  # noqa: F401, PLC0415
    except ImportError:
        raise StartupError(_ABSENT) from None
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if (value := os.environ.get(name)) and value != _PROTOCOL:
            raise StartupError(f"{name}={value}: protocol not supported; set {_PROTOCOL}")


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"})

_HTTP, _UNKNOWN = "HTTP", "_OTHER"
"""Texts for a method that is not in `_METHODS`: the first for the name of a span, the second for its attribute."""

_tracer = trace.get_tracer("anyreplica", __version__)


class TracingMiddleware:
    """The tracing middleware. It makes a span for each request except probes and the metrics.

    The names and attributes follow OpenTelemetry's conventions for HTTP. This middleware is outside all others,
    including the access log, because an access log entry contains the id of the trace.
    """

    def __init__(self, app: ASGIApp, settings: PathSettings) -> None:
        self.app = app
        self._mcp = mcp_paths(settings)
        self._untraced = quiet_paths(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (path := path_of(scope)) in self._untraced:
            await self.app(scope, receive, send)
            return
        record = record_of(scope)
        span = record.trace = RequestSpan(scope, record, path if path in self._mcp else "")

        def send_noting(message: Message) -> Awaitable[None]:
            if message["type"] in BEGINNINGS:
                span.status = message["status"]
            return send(message)

        try:
            await self.app(scope, receive, send_noting)
        finally:
            span.end()


def read_parent(scope: Scope, params: Mapping[str, Any] | None) -> None:
    """Start the span of a request when its message is known."""
    span: RequestSpan | None = record_of(scope).trace
    if span is not None:
        span.read(params)


class RequestSpan:
    """The span of a request. It starts when its parent is known, from a header or else from the message's `_meta`.

    Its start time is the time when this object was made. After its start it is the current span of the request's task.

    Args:
        endpoint: the path of the MCP endpoint; empty: the request is for another path.
    """

    def __init__(self, scope: Scope, record: RequestRecord, endpoint: str) -> None:
        self.status = 0
        """HTTP status of the reply; 0 before the reply."""
        self._scope = scope
        self._record = record
        self._endpoint = endpoint.rstrip("/")
        self._since = time.time_ns()
        self._span: trace.Span | None = None
        parent = parent_of_headers(record.headers)
        if parent is not None or not endpoint:
            self._begin(parent)

    def read(self, params: Mapping[str, Any] | None) -> None:
        """Start the span with the parent in the message's `_meta`, if no header named a parent."""
        if self._span is None:
            self._begin(parent_of_meta(params))

    def end(self) -> None:
        """End the span, with the outcome of the request as attributes."""
        span = self._span or self._begin(None)
        if span.is_recording():
            span.set_attributes(self._outcome())
            if route := getattr(self._scope.get("route"), "path", ""):  # set by Starlette
                span.set_attribute("http.route", route)
                span.update_name(f"{_method(self._scope)} {route}")
            if self.status >= 500 or self._record.failed == FAULT:
                span.set_status(StatusCode.ERROR)
        span.end(max(time.time_ns(), self._since))

    def _begin(self, parent: Context | None) -> trace.Span:
        name = _method(self._scope)
        attributes = {
            "http.request.method": _UNKNOWN if name == _HTTP else name,
            "url.path": self._scope["path"][:LONGEST],
            "url.scheme": self._scope["scheme"],
            "network.protocol.version": self._scope["http_version"],
        }
        if self._endpoint:
            attributes["http.route"] = self._endpoint
            name = f"{name} {self._endpoint}"
        parent = Context() if parent is None else parent
        self._span = _tracer.start_span(name, parent, SpanKind.SERVER, attributes, start_time=self._since)
        current_context.attach(trace.set_span_in_context(self._span, parent))
        if (own := self._span.get_span_context()).is_valid:
            trace_id.set(trace.format_trace_id(own.trace_id))
        return self._span

    def _outcome(self) -> dict[str, Any]:
        record = self._record
        method, _ = record.called or ("", "")
        _, path = record.path or ("", "")
        error = (record.failed or "") if self.status else "client_gone"
        found = {
            "http.response.status_code": self.status,
            "mcp.method.name": method,
            "anyreplica.path": path,
            "error.type": str(self.status) if self.status >= 500 else error,
            "http.response.header.x-request-id": [request_id.get()],
        }
        return {name: value for name, value in found.items() if value}


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in _METHODS else _HTTP


def _last_spans(traced: "Export | None") -> AbstractAsyncContextManager[None]:
    """Return a context manager that sends the remaining spans on exit: ours, or those of the author's provider."""
    return traced.running() if traced is not None and traced.is_used else flushing()


class Tracing(Feature):
    """Makes a span for each request. It comes first, because the core checks only once whether tracing is on."""

    settings: TracingSettings

    def check(self) -> None:
        check(self.settings)

    check_worker = check

    def attach(self, replica: Replica) -> Parts:
        traced = tracing(self.settings, replica.name)
        last = _last_spans(traced)
        if traced is None:
            return Parts(running=[last])
        around = partial(TracingMiddleware, settings=self.settings)
        return Parts(middleware=[(Position.OUTERMOST, around)], on_message=[read_parent], running=[last])

    def in_worker(self, name: str) -> Sequence[AbstractAsyncContextManager[None]]:
        return [_last_spans(tracing(self.settings, name))]
