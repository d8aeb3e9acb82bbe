"""The outermost span of a request: what HTTP knows of it."""

import time
from collections.abc import Awaitable, Mapping
from typing import Any

from opentelemetry import context as current_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_swarm._version import __version__
from mcp_swarm.http.access_log import CALLED, FAILED, FAULT, LONGEST, PATH_TAKEN
from mcp_swarm.http.headers import headers_of
from mcp_swarm.http.responses import BEGINNINGS
from mcp_swarm.process.logs import request_id, trace_id
from mcp_swarm.tracing.parent import of_headers, of_meta

TRACE = "mcp_swarm.trace"
"""Key of the scope under which a traced request's `RequestSpan` stands."""

_MCP = frozenset({"/mcp", "/mcp/"})
_UNTRACED = frozenset({"/healthz", "/health", "/readyz", "/metrics"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"})
_HTTP, _UNKNOWN = "HTTP", "_OTHER"
"""What stands for another method, in a span's name and in its attribute."""

_tracer = trace.get_tracer("mcp-swarm", __version__)


class TracingMiddleware:
    """Put each request but the probes into a span; named and described as OpenTelemetry's conventions for HTTP say.

    It goes around all middleware, the access log too, whose line holds the trace's id.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNTRACED:
            await self.app(scope, receive, send)
            return
        span = scope[TRACE] = RequestSpan(scope)

        def send_noting(message: Message) -> Awaitable[None]:
            if message["type"] in BEGINNINGS:
                span.status = message["status"]
            return send(message)

        try:
            await self.app(scope, receive, send_noting)
        finally:
            span.end()


class RequestSpan:
    """A request's span, which begins when it is known whose child it is: by a header, or else by the message's `_meta`.

    Its time begins when it is made. From its beginning on it is the current span of the request's own task.
    """

    def __init__(self, scope: Scope) -> None:
        self.status = 0
        """Of the reply, as soon as there is one."""
        self._scope = scope
        self._since = time.time_ns()
        self._span: trace.Span | None = None
        parent = of_headers(headers_of(scope))
        if parent is not None or scope["path"] not in _MCP:
            self._begin(parent)

    def read(self, params: Mapping[str, Any] | None) -> None:
        """Begin with what the message says that was sent, if no header said whose child the span is."""
        if self._span is None:
            self._begin(of_meta(params))

    def end(self) -> None:
        """End it with what has come of the request."""
        span = self._span or self._begin(None)
        if span.is_recording():
            span.set_attributes(self._outcome())
            if route := getattr(self._scope.get("route"), "path", ""):  # which Starlette found
                span.set_attribute("http.route", route)
                span.update_name(f"{_method(self._scope)} {route}")
            if self.status >= 500 or self._scope.get(FAILED) == FAULT:
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
        if self._scope["path"] in _MCP:
            attributes["http.route"] = "/mcp"
            name = f"{name} /mcp"
        parent = Context() if parent is None else parent
        self._span = _tracer.start_span(name, parent, SpanKind.SERVER, attributes, start_time=self._since)
        current_context.attach(trace.set_span_in_context(self._span, parent))
        if (own := self._span.get_span_context()).is_valid:
            trace_id.set(trace.format_trace_id(own.trace_id))
        return self._span

    def _outcome(self) -> dict[str, Any]:
        scope = self._scope
        method, _ = scope.get(CALLED, ("", ""))
        _, path = scope.get(PATH_TAKEN, ("", ""))
        error = scope.get(FAILED, "") if self.status else "client_gone"
        found = {
            "http.response.status_code": self.status,
            "mcp.method.name": method,
            "mcp_swarm.path": path,
            "error.type": str(self.status) if self.status >= 500 else error,
            "http.response.header.x-request-id": [request_id.get()],
        }
        return {name: value for name, value in found.items() if value}


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in _METHODS else _HTTP
