"""Tests of the search for the knee, the highest rate that a deployment sustains."""

import dataclasses
from collections.abc import Callable

import pytest

from anyreplica.load.knee import MOST_STAGES, find
from anyreplica.load.latency import Latency
from anyreplica.load.summary import Summary
from anyreplica.load.thresholds import Threshold
from tests.loadtest.test_summary import SUMMARY

GATES = (Threshold.of("p99<200ms"), Threshold.of("error_rate<1%"))


def server(limit: float) -> Callable[[float], Summary]:
    """Return a server that handles `limit` requests per second and is slow beyond that."""

    def attempt(rate: float) -> Summary:
        p99 = 20.0 if rate <= limit else 900.0
        latency = Latency(100, 1, 1, 1, 1, 1, p99, p99, p99)
        return dataclasses.replace(SUMMARY, requests=100, succeeded=100, begun=rate, latency=latency)

    return attempt


@pytest.mark.parametrize("limit", [3, 49, 50, 333, 1000, 12_345])
def test_the_knee_is_found(limit: float) -> None:
    """The search finds the knee within ten percent in at most 16 stages, whether it starts below or above the knee."""
    knee = find(50, GATES, server(limit))
    assert knee.best
    assert knee.worst
    assert knee.best.rate <= limit < knee.worst.rate <= knee.best.rate * 1.1
    assert len(knee.stages) <= 16
    assert knee.worst.broken == ["p99<200ms: p99 is 900.0 ms"]


def test_requests_that_cannot_begin_break_a_rate() -> None:
    """A rate does not hold if the generator could not begin its requests because all clients were busy."""

    def attempt(rate: float) -> Summary:
        return dataclasses.replace(server(10_000)(rate), begun=min(rate, 400))

    knee = find(50, GATES, attempt)
    assert knee.best
    assert 380 <= knee.best.rate <= 421
    assert knee.worst
    assert "the clients began only" in knee.worst.broken[0]


def test_an_interruption_keeps_what_was_found() -> None:
    """After Ctrl-C, the search keeps the finished stages; it ends without a knee if the server sustains no rate."""

    def attempt(rate: float) -> Summary:
        if rate == 200:
            raise KeyboardInterrupt
        return server(10_000)(rate)

    knee = find(50, GATES, attempt)
    assert [stage.rate for stage in knee.stages] == [50, 100]
    assert knee.interrupted
    assert knee.best
    assert knee.best.rate == 100
    knee = find(50, GATES, server(0))
    assert knee.best is None
    assert len(knee.stages) <= 8


def test_the_search_ends_if_no_rate_is_too_high() -> None:
    """The result is then the highest rate that was tried, and no rate is too much."""
    knee = find(50, GATES, lambda rate: server(rate)(rate))
    assert len(knee.stages) == MOST_STAGES
    assert knee.best is knee.stages[-1]
    assert knee.worst is None
    assert not knee.interrupted
