"""The parent spans that clients and submissions of jobs name (W3C Trace Context)."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags, get_current_span, use_span

_LONGEST = 512
"""Maximum number of characters in a value. Longer values are ignored."""

_TRACEPARENT = "traceparent"

_NOBODY = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.DEFAULT))


def untraced() -> AbstractContextManager[object]:
    """Return a context in which FastMCP makes no spans, for work without a caller.

    Its parent span is not sampled, so that its children are not sampled either.
    """
    return use_span(NonRecordingSpan(_NOBODY))


def parent_of_headers(headers: Mapping[bytes, bytes]) -> Context | None:
    """Return the client's span from the headers of a request, or None if they name none."""
    named = ((name, headers.get(name.encode())) for name in propagate.get_global_textmap().fields)
    return _extracted({name: value.decode("latin-1") for name, value in named if value is not None})


def parent_of_meta(params: Mapping[str, Any] | None) -> Context | None:
    """Return the client's span from the `_meta` of a message (SEP-414), or None if it names none."""
    meta = params.get("_meta") if params else None
    if type(meta) is not dict:
        return None
    return _extracted({name: meta[name] for name in propagate.get_global_textmap().fields if name in meta})


def current_traceparent() -> str:
    """Return the current span as a `traceparent`, or an empty text without a span."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier.get(_TRACEPARENT, "")


def links_to(traceparent: str) -> list[Link]:
    """Return a link to a span that `current_traceparent` returned, or no link for an empty text."""
    context = _extracted({_TRACEPARENT: traceparent})
    return [] if context is None else [Link(get_current_span(context).get_span_context())]


def _extracted(carrier: Mapping[str, Any]) -> Context | None:
    fit = {name: value for name, value in carrier.items() if type(value) is str and len(value) <= _LONGEST}
    if not fit:
        return None
    context = propagate.extract(fit, Context())
    return context if get_current_span(context).get_span_context().is_valid else None
