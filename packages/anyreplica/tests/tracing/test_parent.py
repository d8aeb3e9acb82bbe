"""Parent spans that callers send, with any content."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.trace import get_current_span

from anyreplica.http.trace_context import links_to, parent_of_headers, parent_of_meta
from tests.damage.values import JSON

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def named(context: Context | None) -> str:
    """Return the parent span of a context, in the form of a `traceparent`."""
    if context is None:
        return ""
    span = get_current_span(context).get_span_context()
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def test_a_parent_span_is_read() -> None:
    """A parent span is read from a header, from `_meta`, and from a job's record."""
    assert named(parent_of_headers({b"traceparent": TRACEPARENT.encode()})) == TRACEPARENT
    assert named(parent_of_meta({"_meta": {"traceparent": TRACEPARENT, "tracestate": "a=b"}})) == TRACEPARENT
    (link,) = links_to(TRACEPARENT)
    assert (link.context.trace_id, link.context.span_id) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)


@given(st.dictionaries(st.sampled_from([b"traceparent", b"tracestate", b"baggage"]), st.binary(max_size=2000)))
def test_no_header_causes_an_error_in_tracing(headers: dict[bytes, bytes]) -> None:
    """Any header is used or ignored, without an error."""
    parent_of_headers(headers)
    parent_of_headers({**headers, b"traceparent": TRACEPARENT.encode()})


@given(JSON, JSON)
def test_no_meta_causes_an_error(meta: Any, value: Any) -> None:
    """Any `_meta` is used or ignored, without an error."""
    assert parent_of_meta({"_meta": meta}) is None
    parent_of_meta({"_meta": {"traceparent": value, "tracestate": value, "baggage": value}})
    assert named(parent_of_meta({"_meta": {"traceparent": TRACEPARENT, "tracestate": value}})) == TRACEPARENT


@given(st.text())
def test_no_record_of_a_job_causes_an_error(text: str) -> None:
    """Any text in a job's record is used or ignored, so that it never stops the job."""
    links_to(text)
