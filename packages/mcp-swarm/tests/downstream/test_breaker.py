"""The circuit breaker's states."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_swarm.downstream.breaker import Breaker, Open
from tests.ratelimit.test_bucket import Clock


def opened(clock: Clock) -> Breaker:
    """A breaker after two failures in a row, open for five seconds."""
    breaker = Breaker(2, 5, clock)
    for _ in range(2):
        breaker.leave(breaker.enter(), False)
    return breaker


def test_it_opens_after_failures_in_a_row() -> None:
    """One that is between makes them begin anew; a call that tells nothing counts as none."""
    breaker = Breaker(2, 5, Clock())
    for good in (False, True, False, None):
        breaker.leave(breaker.enter(), good)
    breaker.leave(breaker.enter(), False)
    with pytest.raises(Open) as refused:
        breaker.enter()
    assert refused.value.seconds == 5


@pytest.mark.parametrize(("good", "state"), [(True, "closed"), (False, "open")])
def test_one_call_finds_out(good: bool, state: str) -> None:
    """While it is on its way, no other is made; and calls from before have nothing to say."""
    clock = Clock()
    breaker = Breaker(1, 5, clock)
    late = [breaker.enter() for _ in range(3)]
    breaker.leave(breaker.enter(), False)
    clock.now += 5
    probe = breaker.enter()
    assert breaker.state == "half-open"
    with pytest.raises(Open):
        breaker.enter()
    for turn, said in zip(late, (True, False, None), strict=True):
        breaker.leave(turn, said)
    assert breaker.state == "half-open"
    breaker.leave(probe, good)
    assert breaker.state == state


def test_a_probe_that_tells_nothing_is_followed_by_another() -> None:
    """As when its caller went away: the breaker never gets stuck."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 5
    breaker.leave(breaker.enter(), None)
    breaker.leave(breaker.enter(), True)
    assert breaker.state == "closed"


STEPS = st.lists(st.sampled_from(["enter", "good", "bad", "gone", "wait", "long"]), max_size=60)


@given(STEPS)
def test_whatever_happens(steps: list[str]) -> None:
    """Half-open, one call is under way; and whoever waits as told can call when all have left."""
    clock = Clock()
    breaker = Breaker(3, 5, clock)
    turns: list[int] = []
    for step in steps:
        if step in ("wait", "long"):
            clock.now += 1 if step == "wait" else 6
        elif step == "enter":
            with contextlib.suppress(Open):
                turns.append(breaker.enter())
        elif turns:
            breaker.leave(turns.pop(0), {"good": True, "bad": False, "gone": None}[step])
        probes = [turn for turn in turns if turn == breaker._turn]
        assert len(probes) == 1 or breaker.state != "half-open"
    for turn in turns:
        breaker.leave(turn, None)
    clock.now += 5
    breaker.leave(breaker.enter(), True)
    assert breaker.state == "closed"
