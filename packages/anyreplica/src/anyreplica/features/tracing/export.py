"""The export of spans to a collector. Only this module imports the SDK of OpenTelemetry."""

import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from anyreplica._version import __version__
from anyreplica.features.tracing.last_spans import send_last
from anyreplica.features.tracing.settings import TracingSettings

logger = logging.getLogger(__name__)

_SDK_OWN = "OTEL_EXPORTER_OTLP_TRACES_"

_CHATTY = (
    "opentelemetry.sdk._shared_internal",
    "opentelemetry.trace",
    "opentelemetry.baggage",
    "opentelemetry.attributes",
    "opentelemetry.util.re",
)
"""Loggers with a warning for each span that the full queue drops, and for each malformed header of a client. The latter
warning quotes the header."""

_KIND = "exception.type"
_QUOTING = "ValidationError"
"""If the name of an error ends with this word, its text contains the arguments of the call. Only the caller may see
these arguments."""


class Export(SpanExporter):
    """The exporter of a provider's spans to a collector.

    It logs a warning when the export begins to fail and another when the export works again. The SDK's exporter logs
    each failed attempt; this class puts the text of that log entry into its own warning.
    """

    def __init__(self, exporter: OTLPSpanExporter, provider: TracerProvider) -> None:
        self._is_away = False
        self._exporter = exporter
        self._provider = provider
        self._why = ""
        logging.getLogger(OTLPSpanExporter.__module__).addFilter(self._keep)
        provider.add_span_processor(BatchSpanProcessor(self))

    @property
    def is_used(self) -> bool:
        """Whether spans come here. They do not if the author or `opentelemetry-instrument` has set a provider."""
        return trace.get_tracer_provider() is self._provider

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send the remaining spans on exit, see `send_last`."""
        try:
            yield
        finally:
            if not self._is_away:
                await send_last(self._provider.shutdown)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch of spans. The SDK calls this method in its own thread."""
        result = self._exporter.export([_presentable(span) for span in spans])
        away = result is not SpanExportResult.SUCCESS
        if away and not self._is_away:
            logger.warning("Traces: export to the collector failed: %s", self._why)
        elif self._is_away and not away:
            logger.warning("Traces: export to the collector works again")
        self._is_away = away
        return result

    def shutdown(self) -> None:
        """Stop the current export, and start no other one."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _keep(self, record: logging.LogRecord) -> bool:
        self._why = record.getMessage()
        return False


def begin(settings: TracingSettings, replica: str) -> Export:
    """Start to make and export spans in this process.

    Raises:
        ValueError: the SDK refuses one of its environment variables.
    """
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
    if "OTEL_PROPAGATORS" not in os.environ:
        # The SDK's default also accepts baggage: text of any client, which calls to other hosts would pass on.
        propagate.set_global_textmap(TraceContextTextMapPropagator())
    # Our values may come from a secret file, which the SDK does not read. The SDK's variables for traces have priority.
    endpoint = None if f"{_SDK_OWN}ENDPOINT" in os.environ else f"{settings.otel_exporter_otlp_endpoint}/v1/traces"
    headers = None if f"{_SDK_OWN}HEADERS" in os.environ else settings.otel_headers
    exporter = OTLPSpanExporter(endpoint, headers=headers)
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have priority over our values.
    ours = {"service.name": settings.mcp_name, "service.version": __version__, "service.instance.id": replica}
    resource = Resource.create(Resource(ours).merge(OTELResourceDetector().detect()).attributes)
    # No shutdown at exit, because it would wait for a lost collector. `Export.running` sends the last spans.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    export = Export(exporter, provider)
    trace.set_tracer_provider(provider)
    return export


def _presentable(span: ReadableSpan) -> ReadableSpan:
    """Return a span without the values of invalid arguments, and only with text that UTF-8 can encode.

    FastMCP records the full text of a tool's exception. A lone surrogate in this text would make the export of the
    whole batch fail.
    """
    noted = [event.attributes or {} for event in span.events]
    quoting = any(str(attributes.get(_KIND)).endswith(_QUOTING) for attributes in noted)
    texts = [span.name, span.status.description, *(span.attributes or {}).values()]
    texts += [value for attributes in noted for value in attributes.values()]
    if not quoting and all(_writable(text) == text for text in texts):
        return span
    why = None if quoting else _writable(span.status.description)
    return ReadableSpan(
        name=_writable(span.name),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=_all_writable(span.attributes or {}),
        events=[_event(event, quoting=quoting) for event in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code, why),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _event(event: Event, *, quoting: bool) -> Event:
    known = event.attributes or {}
    kept = {name: value for name, value in known.items() if name == _KIND} if quoting else known
    return Event(event.name, _all_writable(kept), event.timestamp)


def _all_writable(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _writable(value) for name, value in attributes.items()}


def _writable(value: Any) -> Any:
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode(errors="replace").decode()
