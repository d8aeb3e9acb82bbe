"""Tests of schedules."""

from itertools import islice, takewhile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyreplica.load.run import Ramp, constant


def test_a_constant_rate() -> None:
    """A constant rate of 10/s sends a request every tenth of a second, and a ramp to zero ends."""
    assert list(islice(constant(10).schedule(), 4)) == pytest.approx([0, 0.1, 0.2, 0.3])
    assert len(list(Ramp(10, 0, 2).schedule())) == 10


@example(500, 499.99999999999994, 1)  # an almost flat ramp
@given(st.floats(0, 500), st.floats(0, 500), st.floats(0.1, 20))
def test_a_ramp_sends_what_its_rate_adds_up_to(first: float, last: float, seconds: float) -> None:
    """A ramp sends its requests in order. Their number differs by at most one from the number that is due."""
    ramp = Ramp(first, last, seconds)
    until = seconds + 1
    times = list(takewhile(lambda at: at < until, islice(ramp.schedule(), 12_000)))
    assert times == sorted(times)
    assert len(times) == pytest.approx(ramp.sent(until), abs=1.01)
    for number in range(0, len(times), 100):
        assert ramp.sent(times[number]) == pytest.approx(number, abs=0.01)
