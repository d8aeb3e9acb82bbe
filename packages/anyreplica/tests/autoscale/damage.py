"""Pages of metrics that a broken or hostile replica could write."""

import itertools

from hypothesis import strategies as st

_NUMBERS = ("0", "1", "90", "NaN", "+Inf", "-Inf", "-1", "1e308", "1e-320", "1e15", "0x10", "", "many", "9" * 400)
_NAMES = (
    "mcp_requests_in_flight",
    "mcp_requests_in_flight_max",
    "mcp_job_queue_depth",
    "mcp_jobs_running",
    "mcp_job_queue_age_seconds",
    "mcp_replica_draining",
    "process_cpu_seconds_total",
    "process_start_time_seconds",
    "mcp_event_loop_lag_seconds_bucket",
    "mcp_request_duration_seconds_bucket",
    "mcp_requests_total",
)
_LABELS = st.lists(
    st.one_of(
        st.sampled_from(_NUMBERS).map('le="{}"'.format),
        st.sampled_from(("tools/call", "tools/list", "")).map('method="{}"'.format),
        st.integers(0, 2000).map(lambda count: f'tool="{chr(92)}"{count * chr(92)}"'),
        st.integers(0, 2000).map(lambda count: f'tool="{count * (chr(92) + chr(34))}"'),
        st.text(max_size=20),
    ),
    max_size=5,
).map(lambda labels: "{" + ",".join(labels) + "}")
_LINES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(_NAMES),
    st.one_of(st.just(""), _LABELS),
    st.sampled_from((" ", "", "\t", "  ")),
    st.sampled_from(_NUMBERS),
)


def _cut(text: bytes, changes: list[tuple[float, bytes]]) -> bytes:
    """Replace what is at some places by other bytes."""
    for where, other in changes:
        at = int(where * len(text))
        text = text[:at] + other + text[at + len(other) + 1 :]
    return text


def damaged_pages() -> st.SearchStrategy[bytes]:
    """Return pages with wrong, missing and repeated lines, with bytes that were changed."""
    pages = st.lists(_LINES, max_size=40).map(lambda lines: "\n".join(lines).encode(errors="replace"))
    repeated = st.builds(lambda page, times: b"\n".join(itertools.repeat(page, times)), pages, st.integers(1, 5))
    changes = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=5)), max_size=4)
    return st.builds(_cut, repeated, changes)
