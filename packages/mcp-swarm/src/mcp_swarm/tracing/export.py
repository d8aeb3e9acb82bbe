"""How spans leave this process. This module and what it imports are the only ones with OpenTelemetry's SDK."""

import logging
import os
from collections.abc import Sequence

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mcp_swarm._version import __version__
from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError
from mcp_swarm.tracing.presentable import presentable

logger = logging.getLogger(__name__)

_PROTOCOL = "http/protobuf"
_SDK_OWN = "OTEL_EXPORTER_OTLP_TRACES_"

_CHATTY = (
    "opentelemetry.sdk._shared_internal",
    "opentelemetry.trace",
    "opentelemetry.baggage",
    "opentelemetry.attributes",
    "opentelemetry.util.re",
)
"""These warn of each span beyond the queue's end, of each header of a caller's that isn't well-formed, and quote it."""


class Export(SpanExporter):
    """Sends spans to a collector; tells when that can't be done, and when it can again, rather than each time.

    Args:
        exporter: the SDK's, whose own words of each try go into what is told.
    """

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        self.is_away = False
        """Whether the collector took nothing the last time."""
        self._exporter = exporter
        self._why = ""
        self._provider: TracerProvider | None = None
        logging.getLogger(OTLPSpanExporter.__module__).addFilter(self._keep)

    def use(self, provider: TracerProvider) -> None:
        """Send the spans of a provider, in a thread of their own."""
        provider.add_span_processor(BatchSpanProcessor(self))
        self._provider = provider

    def stop(self) -> None:
        """Send the spans that are left; blocks until that is done, or the SDK has no more patience (30 s)."""
        if self._provider is not None:
            self._provider.shutdown()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch; for the SDK, which has a thread for it."""
        result = self._exporter.export([presentable(span) for span in spans])
        away = result is not SpanExportResult.SUCCESS
        if away and not self.is_away:
            logger.warning("No traces can be sent: %s", self._why)
        elif self.is_away and not away:
            logger.warning("Traces can be sent again")
        self.is_away = away
        return result

    def shutdown(self) -> None:
        """End a try that is being made, and make no more."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _keep(self, record: logging.LogRecord) -> bool:
        self._why = record.getMessage()
        return False


def begin(settings: Settings, replica: str) -> Export:
    """Have this process make spans, and send them.

    Raises:
        ValueError: the SDK doesn't take one of its variables.
    """
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
    if "OTEL_PROPAGATORS" not in os.environ:
        # The SDK's default takes baggage, too: a stranger's words, which calls to other hosts would carry on.
        propagate.set_global_textmap(TraceContextTextMapPropagator())
    # Ours may come from a secret's file, which the SDK doesn't read; its own for traces alone come first.
    endpoint = None if f"{_SDK_OWN}ENDPOINT" in os.environ else f"{settings.otel_exporter_otlp_endpoint}/v1/traces"
    headers = None if f"{_SDK_OWN}HEADERS" in os.environ else settings.otel_headers
    export = Export(OTLPSpanExporter(endpoint, headers=headers))
    # Not at exit, which would wait for a collector that is away; `Tracing.running` sends the last.
    provider = TracerProvider(resource=_resource(settings.mcp_name, replica), shutdown_on_exit=False)
    export.use(provider)
    trace.set_tracer_provider(provider)
    return export


def check_protocol() -> None:
    """Refuse a protocol that isn't spoken here.

    Raises:
        StartupError: there is one in the environment.
    """
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        said = os.environ.get(name)
        if said and said != _PROTOCOL:
            raise StartupError(f"{name}={said}: traces are sent by {_PROTOCOL} only")


def _resource(name: str, replica: str) -> Resource:
    """Who makes the spans; what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say comes first."""
    ours = Resource({"service.name": name, "service.version": __version__, "service.instance.id": replica})
    return Resource.create(ours.merge(OTELResourceDetector().detect()).attributes)
