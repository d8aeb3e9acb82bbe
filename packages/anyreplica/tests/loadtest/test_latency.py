"""Tests of percentiles and histograms."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.load.latency import Bucket, Latency, histogram, percentile


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([15, 20, 35, 40, 50], {0: 15, 5: 15, 30: 20, 40: 20, 50: 35, 99: 50, 100: 50}),
        (range(1, 1001), {50: 500, 99: 990, 99.9: 999, 100: 1000}),  # 99.9 / 100 * 1000 is a little more than 999
    ],
    ids=["textbook", "thousand"],
)
def test_percentiles_by_nearest_rank(values: Sequence[int], expected: dict[float, int]) -> None:
    """Percentiles follow the nearest-rank method, as in the textbook's example, and are exact."""
    assert {percent: percentile(values, percent) for percent in expected} == expected


@given(st.lists(st.floats(0, 1000), min_size=1), st.floats(0.1, 100))
def test_a_percentile_is_not_exceeded_by_its_share_of_values(values: list[float], percent: float) -> None:
    """A percentile is a value that the given share of the values does not exceed."""
    found = percentile(sorted(values), percent)
    assert found in values
    assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-5


def test_latencies_are_milliseconds() -> None:
    """Latencies are in milliseconds, exact to the microsecond, and without values there are none."""
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    assert Latency.of([]) == Latency(0, None, None, None, None, None, None, None, None)
    latency = Latency.of([number / 1000 for number in range(1, 1001)])
    assert (latency.count, latency.mean) == (1000, 500.5)
    assert (latency.p50, latency.p75, latency.p90, latency.p95) == (500, 750, 900, 950)
    assert (latency.p99, latency.p99_9, latency.max) == (990, 999, 1000)


def test_a_histogram_has_growing_buckets() -> None:
    """A histogram has growing buckets. Each bucket includes its upper bound, and empty buckets in between are shown."""
    buckets = [Bucket(1.0, 1), Bucket(1.25, 2), Bucket(1.6, 0), Bucket(2.0, 1)]
    assert histogram([0.0010, 0.0011, 0.00125, 0.0019]) == buckets
    assert histogram([]) == []


@given(st.lists(st.floats(0, 86_400)))
def test_a_histogram_loses_nothing(seconds: list[float]) -> None:
    """Each value is in a bucket of the histogram."""
    assert sum(bucket.count for bucket in histogram(seconds)) == len(seconds)
