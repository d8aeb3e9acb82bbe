"""The number of retries that are allowed, and the pauses before them."""

import datetime
import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.features.downstream.hosts import PER_SECOND, SHARE, Budget, pause
from tests.ratelimit.test_bucket import Clock


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_retries_are_a_share_of_calls(steps: list[tuple[float, int, int]]) -> None:
    """There are never more retries than ten, plus a share of the calls, plus a few per second."""
    clock = Clock()
    budget = Budget(clock)
    calls = spent = 0
    begin = clock.now
    for seconds, earned, asked in steps:
        clock.now += seconds
        for _ in range(earned):
            budget.earn()
        calls += earned
        spent += sum(budget.spend() for _ in range(asked))
        assert spent <= 10 + calls * SHARE + (clock.now - begin) * PER_SECOND + 1e-6


def test_the_budget_grows_with_time() -> None:
    """The budget gets some retries back with time."""
    clock = Clock()
    budget = Budget(clock)
    assert [budget.spend() for _ in range(11)] == [True] * 10 + [False]
    clock.now += 1
    assert [budget.spend() for _ in range(3)] == [True, True, False]


@given(st.integers(1, 100))
def test_pauses_grow_up_to_two_seconds(tried: int) -> None:
    """The longest possible pause doubles with each attempt, up to two seconds."""
    assert 0 <= pause(tried) <= min(2, 0.1 * 2**tried)


def test_retry_after() -> None:
    """Retry-After may be a number of seconds or a date."""
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)
    for text in ("60", email.utils.format_datetime(then, usegmt=True), email.utils.format_datetime(then)):
        assert 58 < pause(1, text) < 61


@pytest.mark.parametrize("text", ["", "-1", "soon", "1.5", "١", "Thu, 01 Jan 1970 00:00:00 GMT", "1 Jan 0 0:0:0 -0000"])
def test_an_invalid_retry_after_is_ignored(text: str) -> None:
    """An invalid or past Retry-After causes no pause beyond the normal one."""
    assert 0 <= pause(1, text) <= 0.1


@given(st.text(max_size=40))
def test_no_header_causes_an_error_in_the_budget(text: str) -> None:
    """No Retry-After header causes an error."""
    assert pause(1, text) >= 0
