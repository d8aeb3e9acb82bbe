"""What a caller, or a job's submission, tells of the span that it comes from (W3C Trace Context)."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags, get_current_span, use_span

_LONGEST = 512
"""Characters of a value that is looked at."""

_TRACEPARENT = "traceparent"

_NOBODY = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.DEFAULT))


def untraced() -> AbstractContextManager[object]:
    """Make no spans of what FastMCP does for no caller: a parent that isn't sampled keeps its children from it."""
    return use_span(NonRecordingSpan(_NOBODY))


def of_headers(headers: Mapping[bytes, bytes]) -> Context | None:
    """The caller's span by a request's headers; None if these name none."""
    named = ((name, headers.get(name.encode())) for name in propagate.get_global_textmap().fields)
    return _extracted({name: value.decode("latin-1") for name, value in named if value is not None})


def of_meta(params: Mapping[str, Any] | None) -> Context | None:
    """The caller's span by a message's `_meta` (SEP-414); None if it names none."""
    meta = params.get("_meta") if params else None
    if type(meta) is not dict:
        return None
    return _extracted({name: meta[name] for name in propagate.get_global_textmap().fields if name in meta})


def current() -> str:
    """The span that this runs within, as a `traceparent`; empty if there is none."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier.get(_TRACEPARENT, "")


def links_to(traceparent: str) -> list[Link]:
    """A link to the span that `current` gave, if it gave one."""
    context = _extracted({_TRACEPARENT: traceparent})
    return [] if context is None else [Link(get_current_span(context).get_span_context())]


def _extracted(carrier: Mapping[str, Any]) -> Context | None:
    fit = {name: value for name, value in carrier.items() if type(value) is str and len(value) <= _LONGEST}
    if not fit:
        return None
    context = propagate.extract(fit, Context())
    return context if get_current_span(context).get_span_context().is_valid else None
