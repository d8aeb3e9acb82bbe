"""The tracing span of a request to another host."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, StatusCode

from anyreplica._version import __version__

_PORTS = {"http": 80, "https": 443}

_tracer = trace.get_tracer("anyreplica", __version__)


@contextmanager
def client_span(request: httpx2.Request) -> Iterator[Callable[[int], None]]:
    """Run the block in a span for a request, and add the span's trace context to the request's headers.

    The names and attributes follow OpenTelemetry's conventions for HTTP. The URL in the span has no query, because many
    APIs expect their key there.

    Yields:
        A function that takes the HTTP status of the response.
    """
    url = request.url
    about: dict[str, str | int] = {
        "http.request.method": request.method,
        "server.address": url.host,
        "server.port": url.port or _PORTS.get(url.scheme, 0),
        "url.full": str(url.copy_with(username=None, password=None, query=None, fragment=None)),
    }
    with _tracer.start_as_current_span(
        request.method, None, SpanKind.CLIENT, about, record_exception=False, set_status_on_exception=False
    ) as span:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        request.headers.update(carrier)

        def answered(status: int) -> None:
            span.set_attribute("http.response.status_code", status)
            if status >= 400:
                _fail(span, str(status))

        try:
            yield answered
        except Exception as error:
            _fail(span, type(error).__name__)
            raise


def _fail(span: trace.Span, why: str) -> None:
    span.set_attribute("error.type", why)
    span.set_status(StatusCode.ERROR)
