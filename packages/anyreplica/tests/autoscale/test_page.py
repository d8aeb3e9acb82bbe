"""Tests of the reading of a page of metrics: what it says, and what a page with anything else in it costs."""

import contextlib
import itertools
import math
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from anyreplica.autoscale.page import MAX_BUCKETS, MAX_BYTES, MAX_LINE_BYTES, MAX_LINES, MAX_PROCESSES, Page
from anyreplica.autoscale.readings import Reading
from anyreplica.features.metrics.feature import RequestMetrics
from anyreplica.http.request_record import RECORD, new_record
from conftest import generated
from tests.autoscale.hostile import damaged_pages


def reading(text: str | bytes, at: float = 0, step: int = 65_536) -> Reading:
    """Return what a page says that arrives in parts of `step` bytes."""
    body, page = text if isinstance(text, bytes) else text.encode(), Page()
    for start in range(0, len(body), step):
        page.feed(body[start : start + step])
    return page.reading(at)


PAGE = """
# HELP mcp_requests_in_flight Requests.
mcp_requests_in_flight 30
mcp_requests_in_flight_max 120
process_cpu_seconds_total 12.5
process_start_time_seconds 1.7e9
mcp_job_queue_depth 4
mcp_jobs_running 3
mcp_job_queue_age_seconds 9
mcp_replica_draining 0
mcp_requests_total{method="tools/call",tool="a"} 5
mcp_request_duration_seconds_bucket{le="0.1",method="tools/call",tool="a"} 5
mcp_request_duration_seconds_bucket{le="0.1",method="tools/call",tool="b} \\" \\\\, 1"} 6
mcp_request_duration_seconds_bucket{le="0.1",method="tools/list",tool=""} 70
mcp_event_loop_lag_seconds_bucket{le="+Inf"} 9 1700000000000
"""


@pytest.mark.parametrize("step", [1, 7, 65_536])
def test_a_page_of_metrics(step: int) -> None:
    """Each figure is read, in whatever parts it arrives. A figure that is not there is None."""
    expected = Reading(5, (1.7e9,), 0.25, 12.5, {math.inf: 9}, {0.1: 11}, 7, 9, is_draining=False)
    assert reading(PAGE, 5, step) == expected
    assert reading(PAGE.rstrip("\n"), 5, step) == expected
    assert reading("mcp_jobs_running 1", 5, step) == Reading(5)
    more = b'mcp_other{\xff\x00} x\n{"mcp_requests_in_flight"} 9\nmcp_requests_in_flight{a="1"} 9\n'
    assert reading(PAGE.encode() + more, 5, step) == expected, "other lines may contain anything"


def test_the_figures_of_a_replica_with_several_processes() -> None:
    """What each process has of its own is added up; of what all of them report, the largest value counts."""
    one = re.sub(r"^(\w+)(?:{(.*)})? ", r'\1{process="1",\2} ', PAGE, flags=re.MULTILINE).replace(",}", "}")
    other = one.replace('process="1"', 'process="2"').replace("1.7e9", "1.8e9")
    other = other.replace('_draining{process="2"} 0', '_draining{process="2"} 1')
    expected = Reading(5, (1.7e9, 1.8e9), 0.25, 25.0, {math.inf: 18}, {0.1: 22}, 7, 9, is_draining=False)
    assert reading(one + other, 5) == expected
    many = "".join(f'mcp_requests_in_flight{{process="{number}"}} 1\n' for number in range(MAX_PROCESSES + 1))
    with pytest.raises(ValueError, match=f"more than {MAX_PROCESSES} processes"):
        reading(many)


@pytest.mark.parametrize("wrong", ["NaN", "+Inf", "-1", "1e300"])
def test_an_impossible_number_is_no_figure(wrong: str) -> None:
    """A number that cannot be used counts as missing."""
    text = f"mcp_requests_in_flight {wrong}\nmcp_requests_in_flight_max 100\nprocess_cpu_seconds_total {wrong}\n"
    assert reading(f"{text}process_start_time_seconds {wrong}") == Reading(0)
    assert reading(f"mcp_requests_in_flight 1\nmcp_requests_in_flight_max {wrong}\n").in_flight is None
    assert reading("mcp_requests_in_flight 1e15\nmcp_requests_in_flight_max 1e-300\n").in_flight is None
    assert reading("mcp_requests_in_flight 1\nmcp_requests_in_flight_max 0\n").in_flight is None


LAG = "mcp_event_loop_lag_seconds_bucket"
WRONG = ['{method="tools/call"} 1', " 1", '{le="soon"} 1', '{le="NaN"} 1', '{le="-1"} 1', '{le="1"} NaN']
WRONG += ['{le="1"} +Inf', '{le="1"} -5', '{le="1"}', '{le="1" 1', "{le=1} 1", '{le="1" le="2"} 1', '{le="1",le="2"} 1']
WRONG += ['{le="\\"} 1']
MANY_LABELS = ",".join(f'a{number}=""' for number in range(21))
NO_NUMBERS = ["", " many", " 1 2 3", "\x00 1", f" {'1' * 65}", f"{{{MANY_LABELS}}} 1"]


@pytest.mark.parametrize(
    "line",
    [
        *(f"{LAG}{rest}" for rest in WRONG),
        *(f"mcp_requests_in_flight{rest}" for rest in NO_NUMBERS),
        'mcp_request_duration_seconds_bucket{method="tools/call"} 1',
    ],
)
def test_a_wrong_line_is_named(line: str) -> None:
    """A line that is needed and that cannot be read makes the page useless. The error shows its beginning."""
    with pytest.raises(ValueError, match="the metrics have a wrong line") as error:
        reading(f"{PAGE}{line}\n")
    assert line[:20] in str(error.value)


BUCKET = b'mcp_event_loop_lag_seconds_bucket{le="%d"} 1\n'


NO_PAGES = [b"", b"<html>", b"# EOF\n", b"go_goroutines 5\n", b"\n" * 1000]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "the page has none of the metrics of a replica") for text in NO_PAGES),
        (PAGE.encode() + b"#" * MAX_BYTES, f"a line of the metrics has more than {MAX_LINE_BYTES} bytes"),
        (PAGE.encode() + (b"#" * 999 + b"\n") * (MAX_BYTES // 1000 + 1), f"more than {MAX_BYTES} bytes"),
        (PAGE.encode() + b"\n" * MAX_LINES, f"more than {MAX_LINES} lines"),
        (PAGE.encode() + b"#" * (MAX_LINE_BYTES + 1) + b"\n", f"more than {MAX_LINE_BYTES} bytes"),
        (b"".join(BUCKET % each for each in range(MAX_BUCKETS + 1)), f"more than {MAX_BUCKETS} buckets"),
    ],
)
def test_a_page_of_something_else_or_beyond_a_limit_is_refused(text: bytes, said: str) -> None:
    """A page that no replica has written, and each limit, has its error, so the log can say what is wrong."""
    with pytest.raises(ValueError, match=said):
        reading(text)


ESCAPED = b'mcp_request_duration_seconds_bucket{le="1",method="tools/call",tool="%s"} 1\n'


@pytest.mark.parametrize(
    "text",
    [
        b'mcp_requests_in_flight{a="' + b'\\"' * (4 * 1024 * 1024) + b'"} 1\n',
        (ESCAPED % (b'\\"' * 4000)) * (MAX_BYTES // 8100),
        (ESCAPED % (b"\\\\" * 4000)) * (MAX_BYTES // 8100),
        (ESCAPED % (b'"' * 8000)) * (MAX_BYTES // 8100),
        (b"mcp_requests_in_flight{" + b"}" * 8000 + b" 1\n") * (MAX_BYTES // 8100),
        (b"mcp_requests_in_flight" + b" " * 8000 + b"1\n") * (MAX_BYTES // 8100),
        (b"mcp_requests_in_flight{" + b"".join(b'a%d="",' % n for n in range(1000)) + b"} 1\n") * (MAX_BYTES // 8100),
        (b"mcp_requests_in_flight{" + b"} " * 4000 + b"\n") * (MAX_BYTES // 8100),
        (BUCKET % 1) * (MAX_LINES - 1),
        b"\n" * (MAX_BYTES - 1),
        b"mcp_requests_in_flight" * 350_000,
    ],
    ids=range(11),
)
def test_the_worst_pages_take_little_time(text: bytes) -> None:
    """A page within the maximum size takes less than two seconds of CPU time. Escaped quotes had taken minutes."""
    assert len(text) <= MAX_BYTES + 100
    start = time.process_time()
    with contextlib.suppress(ValueError):
        reading(text)
    assert time.process_time() - start < 2


def test_a_large_replica_is_far_from_each_limit() -> None:
    """A replica with a thousand tools, of which each was called and has failed, uses less than half of each limit."""
    tools = {f"tool_number_{number}_with_a_rather_long_name": None for number in range(1000)}
    metrics, registry = RequestMetrics(lambda: tools, lambda: False), CollectorRegistry()
    registry.register(metrics)
    count = metrics.observer()
    for tool, failed in itertools.product(tools, (None, "tool_error")):
        record = new_record({})
        record.called, record.failed = ("tools/call", tool), failed
        count("id", {RECORD: record}, 200, 0.1)
    text = generate_latest(registry)
    assert len(text) < MAX_BYTES / 2
    assert text.count(b"\n") < MAX_LINES / 2


@generated(200)
@given(damaged_pages() | st.binary(max_size=2000), st.integers(1, 5000))
def test_a_damaged_page_is_a_reading_or_a_value_error(text: bytes, step: int) -> None:
    """Any bytes, in whatever parts, are a ValueError or figures that can be used, and harm no other page."""
    assert reading(PAGE).in_flight == 0.25, "a good page is read as before"
    try:
        found = reading(text, step=step)
    except ValueError:
        return
    assert found == reading(text)
    numbers = (*found.started, found.in_flight, found.cpu, found.jobs, found.age, *found.lag.values())
    assert all(each is None or 0 <= each < math.inf for each in numbers)
    assert len(found.lag) <= MAX_BUCKETS
