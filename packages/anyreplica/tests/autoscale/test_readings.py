"""Tests of what a page of metrics and the last readings say about a replica."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.autoscale.readings import SECONDS, History, Reading, reading

FINITE = st.floats(0, 1e6)


def test_a_page_of_metrics() -> None:
    """Each figure is read, and a figure that is not there is None."""
    text = """
mcp_requests_in_flight 30
mcp_requests_in_flight_max 120
process_cpu_seconds_total 12.5
process_start_time_seconds 1.7e9
mcp_job_queue_depth 4
mcp_jobs_running 3
mcp_job_queue_age_seconds 9
mcp_replica_draining 0
mcp_request_duration_seconds_bucket{le="0.1",method="tools/call",tool="a"} 5
mcp_request_duration_seconds_bucket{le="0.1",method="tools/call",tool="b"} 6
mcp_request_duration_seconds_bucket{le="0.1",method="tools/list",tool=""} 70
mcp_event_loop_lag_seconds_bucket{le="+Inf"} 9
"""
    assert reading(text, 5) == Reading(5, 1.7e9, 0.25, 12.5, {math.inf: 9}, {0.1: 11}, 7, 9, is_draining=False)
    assert reading("", 5) == Reading(5)


@pytest.mark.parametrize("wrong", ["NaN", "+Inf", "-1"])
def test_an_impossible_number_is_no_figure(wrong: str) -> None:
    """A number that cannot be used counts as missing."""
    text = f"mcp_requests_in_flight {wrong}\nmcp_requests_in_flight_max 100\nprocess_cpu_seconds_total {wrong}\n"
    assert reading(text, 0) == Reading(0)
    assert reading(f"mcp_requests_in_flight 1\nmcp_requests_in_flight_max {wrong}\n", 0).in_flight in (None, 0)


def test_figures_are_averages_of_the_last_seconds() -> None:
    """The load is the average of the last `SECONDS`. An older reading does not count."""
    history = History()
    for at, in_flight in ((0, 1.0), (5, 0.0), (10, 0.5), (15, 0.0)):
        history.add(Reading(at, in_flight=in_flight, cpu=at * 0.3))
    assert history.in_flight() == 0.375
    assert history.cpu() == pytest.approx(0.3)
    history.add(Reading(20 + SECONDS, in_flight=0.7, cpu=100))
    assert history.in_flight() == 0.7
    assert history.cpu() is None


def test_a_new_process_begins_anew() -> None:
    """The counters of a process that was replaced are not compared with those of the new one."""
    history = History()
    history.add(Reading(0, started=1, cpu=100))
    history.add(Reading(5, started=2, cpu=1))
    assert history.cpu() is None


def test_the_percentile_counts_only_new_observations() -> None:
    """The observations before the first reading do not count."""
    history = History()
    history.add(Reading(0, durations={0.1: 1000, 1.0: 2000, math.inf: 2000}))
    history.add(Reading(5, durations={0.1: 1100, 1.0: 2100, math.inf: 2100}))
    assert history.p99() == pytest.approx(0.099)
    history.add(Reading(10, durations={0.1: 1100, 1.0: 2110, math.inf: 2200}))
    assert history.p99() == 1.0, "above the last bound"


def test_few_calls_have_no_percentile() -> None:
    """A handful of slow calls does not add replicas."""
    history = History()
    history.add(Reading(0, durations={0.1: 0, math.inf: 0}))
    history.add(Reading(5, durations={0.1: 0, math.inf: 5}))
    assert history.p99() == 0


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3), st.lists(st.integers(0, 1000), min_size=3, max_size=3))
def test_a_percentile_lies_within_the_bounds(before: list[int], more: list[int]) -> None:
    """Whatever the counts are, the percentile is a number between 0 and the largest bound."""
    bounds = [0.1, 1.0, math.inf]
    sums = [sum(before[: n + 1]) for n in range(3)]
    later = [sums[n] + sum(more[: n + 1]) for n in range(3)]
    history = History()
    history.add(Reading(0, durations=dict(zip(bounds, sums, strict=True))))
    history.add(Reading(5, durations=dict(zip(bounds, later, strict=True))))
    found = history.p99()
    assert found is not None
    assert 0 <= found <= 1.0
