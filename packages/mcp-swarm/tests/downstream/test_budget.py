"""How many retries there may be, and when."""

import datetime
import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_swarm.downstream.retries import PER_SECOND, SHARE, Budget, pause
from tests.ratelimit.test_bucket import Clock


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_retries_are_a_share_of_calls(steps: list[tuple[float, int, int]]) -> None:
    """And a few by time; never more, however they come."""
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


def test_time_gives_some_back() -> None:
    """For a call now and then."""
    clock = Clock()
    budget = Budget(clock)
    assert [budget.spend() for _ in range(11)] == [True] * 10 + [False]
    clock.now += 1
    assert [budget.spend() for _ in range(3)] == [True, True, False]


@given(st.integers(1, 100))
def test_pauses_grow_and_end(tried: int) -> None:
    """At two seconds."""
    assert 0 <= pause(tried) <= min(2, 0.1 * 2**tried)


def test_what_a_host_asks_for() -> None:
    """Seconds, or a date."""
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)
    for text in ("60", email.utils.format_datetime(then, usegmt=True), email.utils.format_datetime(then)):
        assert 58 < pause(1, text) < 61


@pytest.mark.parametrize("text", ["", "-1", "soon", "1.5", "١", "Thu, 01 Jan 1970 00:00:00 GMT", "1 Jan 0 0:0:0 -0000"])
def test_what_makes_no_sense_asks_for_nothing(text: str) -> None:
    """Or is over."""
    assert 0 <= pause(1, text) <= 0.1


@given(st.text(max_size=40))
def test_no_header_breaks_it(text: str) -> None:
    """Whatever a host says."""
    assert pause(1, text) >= 0
