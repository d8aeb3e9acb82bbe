"""What a run's outcomes add up to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.call import Outcome
from loadtest.summary import Latency, percentile, summarize


@pytest.mark.parametrize(("percent", "expected"), [(0, 15), (5, 15), (30, 20), (40, 20), (50, 35), (99, 50), (100, 50)])
def test_percentiles_by_nearest_rank(percent: float, expected: int) -> None:
    """The textbook's example of the method."""
    assert percentile([15, 20, 35, 40, 50], percent) == expected


@given(st.lists(st.floats(0, 1000), min_size=1), st.floats(0.1, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], percent: float) -> None:
    """By definition, whatever the values."""
    found = percentile(sorted(values), percent)
    assert found in values
    assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-9


def test_no_values_have_no_percentile() -> None:
    """Rather than a zero that looks fast."""
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    assert Latency.of([]) == Latency(None, None, None, None)


def test_a_summary_keeps_failures_out_of_the_latency() -> None:
    """A fast failure must not make the service look fast."""
    outcomes = [
        *(Outcome(0.010, "a", "") for _ in range(6)),
        *(Outcome(0.030, "b", "") for _ in range(2)),
        Outcome(0.001, "b", "HTTP 503"),
        Outcome(5.0, "", "ReadTimeout"),
    ]
    summary = summarize(outcomes, 2.0, expected_replicas=3)
    assert (summary.requests, summary.succeeded, summary.throughput) == (10, 8, 4.0)
    assert summary.latency == Latency(p50=10, p95=30, p99=30, max=30)
    assert summary.errors == {"HTTP 503": 1, "ReadTimeout": 1}
    assert [(r.name, r.requests, r.succeeded, r.share) for r in summary.replicas] == [
        ("a", 6, 6, 0.6667),
        ("b", 3, 2, 0.3333),
    ]
    assert summary.problems == ["2 of 10 calls failed", "2 of 3 expected replicas took part"]
    assert summary.as_json()["passed"] is False
