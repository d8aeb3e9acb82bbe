"""Tests of what the last readings say about a replica."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.autoscale.readings import SECONDS, History, Reading
from anyreplica.autoscale.service import Service


def test_figures_are_averages_of_the_last_seconds() -> None:
    """The load is the average of the last `SECONDS`, without older readings and those of a former process."""
    history = History()
    for at, in_flight in ((0, 1.0), (5, 0.0), (10, 0.5), (15, 0.0)):
        history.add(Reading(at, in_flight=in_flight, cpu=at * 0.3))
    assert history.in_flight() == 0.375
    assert history.cpu() == pytest.approx(0.3)
    history.add(Reading(20 + SECONDS, in_flight=0.7, cpu=4.5 + 0.4 * 20))
    assert history.in_flight() == 0.7
    assert history.cpu() == pytest.approx(0.4), "after a pause, the reading before it still counts for the counters"
    history.add(Reading(120 + SECONDS, in_flight=0.2, cpu=200))
    assert history.in_flight() == 0.2
    assert history.cpu() is None, "after a minute, it says too little"
    history = History()
    history.add(Reading(0, started=(1,), cpu=100))
    history.add(Reading(5, started=(2,), cpu=1))
    assert history.cpu() is None, "the counters of a process that was replaced"
    history.add(Reading(10, started=(1,), cpu=103))
    assert history.cpu() == pytest.approx(0.3), "a process that was only too busy to answer"


def test_the_percentile_counts_only_new_observations() -> None:
    """The observations before the first reading do not count, and a handful of calls has no percentile."""
    history = History()
    history.add(Reading(0, durations={0.1: 1000, 1.0: 2000, math.inf: 2000}))
    history.add(Reading(5, durations={0.1: 1100, 1.0: 2100, math.inf: 2100}))
    assert history.p99() == pytest.approx(0.099)
    history.add(Reading(10, durations={0.1: 1100, 1.0: 2110, math.inf: 2200}))
    assert history.p99() == 1.0, "above the last bound"
    history = History()
    history.add(Reading(0, durations={0.1: 0, math.inf: 0}))
    history.add(Reading(5, durations={0.1: 0, math.inf: 5}))
    assert history.p99() == 0, "a handful of slow calls"


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


@pytest.mark.parametrize(
    ("limit", "workers", "cores"),
    [(None, None, 1), (4e9, None, 1), (4e9, "2", 2), (5e8, "2", 0.5), (None, "3", 3), (None, "many", 1)],
)
def test_the_cores_that_a_replica_can_use(limit: float | None, workers: str | None, cores: float) -> None:
    """Each process uses one core (`WORKERS`), and all of them together no more than the CPU limit."""
    task = {
        "ContainerSpec": {"Env": [f"WORKERS={workers}"] if workers else []},
        "Resources": {"Limits": {"NanoCPUs": limit} if limit else {}},
    }
    spec = {"Name": "mcp", "Mode": {"Replicated": {"Replicas": 2}}, "TaskTemplate": task}
    assert Service.of({"ID": "a", "Version": {"Index": 1}, "Spec": spec}).cores == cores
