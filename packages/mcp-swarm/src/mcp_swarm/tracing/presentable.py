"""What of a span may leave this process, and can."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Status

_KIND = "exception.type"
_QUOTING = "ValidationError"
"""Errors of this name quote what was given, and arguments are nobody's business but their caller's."""


def presentable(span: ReadableSpan) -> ReadableSpan:
    """A span without the values of arguments that didn't fit, and in text that UTF-8 can carry.

    FastMCP notes what a tool raised word by word. One such word with a lone surrogate would cost its whole batch.
    """
    events = [event for event in span.events if event.attributes]
    quoting = any(str(dict(event.attributes or {}).get(_KIND)).endswith(_QUOTING) for event in events)
    texts = [span.name, span.status.description, *(span.attributes or {}).values()]
    texts += [value for event in events for value in (event.attributes or {}).values()]
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
