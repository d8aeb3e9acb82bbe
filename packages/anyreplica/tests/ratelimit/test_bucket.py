"""Tests of token buckets."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyreplica.features.ratelimit.buckets import Buckets
from anyreplica.settings.rate import NO_RATE, Rate, parse

RATES = st.builds(
    Rate,
    calls=st.floats(0.5, 1000),
    seconds=st.sampled_from([1.0, 60.0, 3600.0]),
    burst=st.floats(1, 100),
)


class Clock:
    """A clock that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100/s", Rate(100, 1, 25)),
        ("100", Rate(100, 1, 25)),
        ("600/m", Rate(600, 60, 10)),
        ("5000/h", Rate(5000, 3600, 10)),
        (" 0.5/d ", Rate(0.5, 86400, 10)),
    ],
)
def test_rates_are_read(text: str, expected: Rate) -> None:
    """`parse` reads rates in the usual notation."""
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0/s", "-1/s", "1/y", "1 / s", "1e9/s", "nan", "inf/s", "1/s/s", "١/s"])
def test_an_invalid_rate_is_refused(text: str) -> None:
    """`parse` refuses an invalid rate with an example of a valid rate."""
    with pytest.raises(ValueError, match=r"is not a rate; write it like 100/s"):
        parse(text)


@example(Rate(1.0, 1.0, 1.6140524280443072), [(0.0, 2), (1.6140524280443072, 2)])  # rounding
@given(RATES, st.lists(st.tuples(st.floats(0, 10), st.integers(1, 20)), max_size=60))
def test_no_more_is_granted_than_the_rate_allows(rate: Rate, calls: list[tuple[float, int]]) -> None:
    """In any time span a bucket grants no more than its burst plus its rate times the span.

    A refusal names a time. When the caller has waited for this time, the bucket grants the call.
    """
    clock = Clock()
    buckets = Buckets(clock)
    granted: list[tuple[float, float]] = []
    for pause, cost in calls:
        clock.now += pause
        verdict = buckets.take("a", rate, cost)
        if verdict.granted:
            granted.append((clock.now, min(cost, rate.burst)))
        else:
            assert verdict.wait > 0
            clock.now += verdict.wait * (1 + 1e-9)
            assert buckets.take("a", rate, cost).granted
            granted.append((clock.now, min(cost, rate.burst)))
    for first, (begin, _) in enumerate(granted):
        spent = 0.0
        for at, tokens in granted[first:]:
            spent += tokens
            assert spent <= rate.burst + (at - begin) * rate.per_second + 1e-3


def test_each_caller_has_its_own_bucket() -> None:
    """Each caller has its own bucket, and a call that costs more than a full bucket empties it."""
    buckets = Buckets(Clock())
    rate = Rate(1, 60, 2)
    assert [buckets.take(name, rate, 1).granted for name in "aabab"] == [True, True, True, False, True]
    assert buckets.take("c", rate, 100).granted
    assert not buckets.take("c", rate, 1).granted


def test_concurrent_calls_are_limited() -> None:
    """A rate limits the calls in flight of a caller."""
    buckets = Buckets(Clock())
    rate = NO_RATE.replace(concurrent=2)
    assert [buckets.take("a", rate, 1).granted for _ in range(3)] == [True, True, False]
    buckets.release("a")
    assert buckets.take("a", rate, 1).granted
    buckets.release("a")
    buckets.release("a")
    assert buckets.running == {}


def test_many_callers_use_limited_memory() -> None:
    """The buckets of many callers use limited memory. Full buckets are dropped first, then the oldest buckets."""
    clock = Clock()
    buckets = Buckets(clock)
    rate = Rate(1, 1, 1)
    for number in range(25_000):
        assert buckets.take(str(number), rate, 1).granted
        clock.now += 0.00001
    assert len(buckets._buckets) <= 10_000
    clock.now += 10
    buckets.take("x", rate, 1)
    assert not buckets.take("x", rate, 1).granted


@given(RATES, st.integers(1, 50))
def test_the_shares_of_all_replicas_are_the_rate(rate: Rate, replicas: int) -> None:
    """The shares of all replicas add up to the rate, and each share still grants some calls."""
    share = rate.replace(concurrent=3).share(replicas)
    assert share.per_second * replicas == pytest.approx(rate.per_second)
    assert share.burst >= 1
    assert share.concurrent >= 1
