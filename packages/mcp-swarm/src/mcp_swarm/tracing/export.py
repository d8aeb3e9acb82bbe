"""How spans leave this process, and what of them may. No other module imports OpenTelemetry's SDK."""

import asyncio
import contextlib
import logging
import os
import threading
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

from mcp_swarm._version import __version__
from mcp_swarm.settings import Settings

logger = logging.getLogger(__name__)

_SDK_OWN = "OTEL_EXPORTER_OTLP_TRACES_"

_LAST_SECONDS = 2.0
"""Time for the last spans to be sent."""

_CHATTY = (
    "opentelemetry.sdk._shared_internal",
    "opentelemetry.trace",
    "opentelemetry.baggage",
    "opentelemetry.attributes",
    "opentelemetry.util.re",
)
"""These warn of each span beyond the queue's end, of each header of a caller's that isn't well-formed, and quote it."""

_KIND = "exception.type"
_QUOTING = "ValidationError"
"""Errors of this name quote what was given, and arguments are nobody's business but their caller's."""


class Export(SpanExporter):
    """Sends a provider's spans to a collector. It tells when that can't be done and when it can again, not each time.

    The words of the SDK's exporter on each try go into what is told.
    """

    def __init__(self, exporter: OTLPSpanExporter, provider: TracerProvider) -> None:
        self._is_away = False
        self._exporter = exporter
        self._provider = provider
        self._why = ""
        logging.getLogger(OTLPSpanExporter.__module__).addFilter(self._keep)
        provider.add_span_processor(BatchSpanProcessor(self))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send what spans there are when the block is left, for `_LAST_SECONDS` at most."""
        try:
            yield
        finally:
            if not self._is_away:
                await self._send_last()

    async def _send_last(self) -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def send() -> None:
            self._provider.shutdown()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(done.set)

        # No thread of a pool: Python would wait for its end, and the SDK waits for a collector up to 30 s.
        threading.Thread(target=send, name="last-spans", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await done.wait()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch; for the SDK, which has a thread for it."""
        result = self._exporter.export([_presentable(span) for span in spans])
        away = result is not SpanExportResult.SUCCESS
        if away and not self._is_away:
            logger.warning("No traces can be sent: %s", self._why)
        elif self._is_away and not away:
            logger.warning("Traces can be sent again")
        self._is_away = away
        return result

    def shutdown(self) -> None:
        """End a try that is being made, and make no more."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _keep(self, record: logging.LogRecord) -> bool:
        self._why = record.getMessage()
        return False


def begin(settings: Settings, replica: str) -> Export:
    """Have this process make spans, and send them; raises ValueError if the SDK doesn't take one of its variables."""
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
    if "OTEL_PROPAGATORS" not in os.environ:
        # The SDK's default takes baggage, too: a stranger's words, which calls to other hosts would carry on.
        propagate.set_global_textmap(TraceContextTextMapPropagator())
    # Ours may come from a secret's file, which the SDK doesn't read; its own for traces alone come first.
    endpoint = None if f"{_SDK_OWN}ENDPOINT" in os.environ else f"{settings.otel_exporter_otlp_endpoint}/v1/traces"
    headers = None if f"{_SDK_OWN}HEADERS" in os.environ else settings.otel_headers
    exporter = OTLPSpanExporter(endpoint, headers=headers)
    # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say comes first.
    ours = {"service.name": settings.mcp_name, "service.version": __version__, "service.instance.id": replica}
    resource = Resource.create(Resource(ours).merge(OTELResourceDetector().detect()).attributes)
    # Not at exit, which would wait for a collector that is away; `Export.running` sends the last.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    export = Export(exporter, provider)
    trace.set_tracer_provider(provider)
    return export


def _presentable(span: ReadableSpan) -> ReadableSpan:
    """A span without the values of arguments that didn't fit, and in text that UTF-8 can carry.

    FastMCP notes what a tool raised word by word. One such word with a lone surrogate would cost its whole batch.
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
